// The process that measures one build. It imports only the build's public entry points and a few small modules of the
// bench, because a copy of it also runs inside older builds.
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import { holdfast, type Holdfast } from "holdfast";
import type { Store } from "holdfast/store";
import { noop } from "../jobs.js";
import { openStore } from "../open-store.js";
import { claimOf, completed, newJob } from "../store-jobs.js";
import type { CallTimes, Kind, Orders, Request, Response, Results } from "./protocol.js";

const FILL_BATCH = 500;

/** One build's store with its backlog. */
class Driver {
  readonly #hf: Holdfast;
  readonly #store: Store;
  readonly #backlog: number;
  readonly #concurrency: number;
  #ran = 0;
  #allRan: () => void = () => {};
  #completed = 0;

  private constructor(store: Store, hf: Holdfast, { backlog, concurrency }: Orders["open"]) {
    this.#store = store;
    this.#hf = hf;
    this.#backlog = backlog;
    this.#concurrency = concurrency;
  }

  static async open(order: Orders["open"]): Promise<Driver> {
    const store = await openStore(order.url);
    let driver: Driver | null = null;
    const type = noop(() => driver?.ran());
    const hf = await holdfast({ store, jobs: [type], logger: false });
    driver = new Driver(store, hf, order);
    await driver.#fill();
    return driver;
  }

  ran(): void {
    if (++this.#ran === this.#backlog) this.#allRan();
  }

  async calls({ sizes }: Orders["calls"]): Promise<CallTimes[]> {
    const taken: CallTimes[] = [];
    for (const size of sizes) taken.push(await this.#cycle(size));
    return taken;
  }

  async drain(): Promise<number> {
    this.#ran = 0;
    const allRan = new Promise<void>((resolve) => (this.#allRan = resolve));
    // Collect the garbage of the inserts now, so that it does not slow down the drain.
    globalThis.gc?.();
    const begun = performance.now();
    const worker = this.#hf.work({ concurrency: this.#concurrency });
    await allRan;
    await worker.stop();
    const seconds = (performance.now() - begun) / 1_000;
    this.#completed += this.#backlog;
    await this.#fill();
    return seconds;
  }

  /** Checks that the work was done. */
  async close(): Promise<null> {
    const { states } = await this.#hf.stats();
    if (this.#store.capabilities.exactCounts) expectAll("drain", this.#completed, states.completed);
    await this.#hf.close();
    return null;
  }

  async #fill(): Promise<void> {
    for (let left = this.#backlog; left > 0; left -= FILL_BATCH) await this.#insert(Math.min(left, FILL_BATCH));
  }

  async #cycle(count: number): Promise<CallTimes> {
    const insert = await this.#insert(count);
    const request = claimOf(count);
    const claimBegun = performance.now();
    const claim = await this.#store.claim(request);
    const claimMs = performance.now() - claimBegun;
    expectAll("claim", count, claim.jobs.length);
    const outcomes = claim.jobs.map(completed);
    const settleBegun = performance.now();
    const results = await this.#store.settle(outcomes);
    const settleMs = performance.now() - settleBegun;
    expectAll("settle", count, results.filter((result) => result === "applied").length);
    this.#completed += count;
    return { insert, claim: claimMs, settle: settleMs };
  }

  /** Returns the time in milliseconds. */
  async #insert(count: number): Promise<number> {
    const jobs = Array.from({ length: count }, () => newJob());
    const begun = performance.now();
    const results = await this.#store.insert(jobs);
    const ms = performance.now() - begun;
    expectAll("insert", count, results.filter((each) => each !== "busy" && each.status === "inserted").length);
    return ms;
  }
}

function expectAll(what: string, wanted: number, got: number): void {
  if (got !== wanted) throw new Error(`${what}: ${got} of ${wanted} jobs`);
}

let driver: Promise<Driver> | null = null;

async function handle(request: Request): Promise<Results[Kind]> {
  if (request.kind === "open") {
    driver = Driver.open(request.order);
    await driver;
    return { product: fileURLToPath(import.meta.resolve("holdfast")) };
  }
  if (driver === null) throw new Error(`${request.kind} before open`);
  const open = await driver;
  if (request.kind === "calls") return open.calls(request.order);
  return open[request.kind]();
}

function send(response: Response): void {
  process.send?.(response);
}

process.on("message", (request: Request) => {
  handle(request).then(
    (result) => send({ kind: "result", result }),
    (error: unknown) => send({ kind: "error", error: inspect(error) }),
  );
});
