import type { Hint } from "../../../store.js";
import type { Db, Runner, Statement } from "../connection/db.js";
import { qualify } from "../connection/qualify.js";
import { WAKES } from "./hint-filter.js";

// NOTIFY takes a lock on the whole database at commit. So notifications of one kind are sent at most this often.
const WORK_MS = 10;
const OTHER_MS = 50;
// How long a worker of this process has to claim jobs that were enqueued here, before other processes are notified.
const OFFER_MS = 5;

export const NOTIFY: Statement = {
  name: "holdfast_notify",
  text: qualify("SELECT pg_catalog.pg_notify($1, $2)::text AS done"),
};

/** Sends hints to other processes, limited in rate and without duplicates. */
export class Notifier {
  readonly #db: Db;
  readonly #channel: string;
  readonly #self: string;
  readonly #paused = new Map<string, NodeJS.Timeout>();
  readonly #pending = new Map<string, Hint>();
  readonly #sending = new Set<Promise<unknown>>();
  #offer: NodeJS.Timeout | null = null;
  #offeredAt = 0;

  constructor(db: Db, channel: string, self: string) {
    this.#db = db;
    this.#channel = channel;
    this.#self = self;
  }

  /**
   * Announces jobs to a worker of this process first: others are notified only if it does not claim, or leaves some of
   * them.
   */
  offer(): void {
    this.#offeredAt = performance.now();
    this.#offer ??= setTimeout(() => this.#sendOffer(), OFFER_MS).unref();
  }

  /** Runs a claim of this process. `takesAll`: whether its result contains all due jobs. */
  async whileClaiming<Result>(claim: () => Promise<Result>, takesAll: (result: Result) => boolean): Promise<Result> {
    const startedAt = performance.now();
    const tookOffer = this.#offer !== null && startedAt > this.#offeredAt;
    if (tookOffer) clearTimeout(this.#offer ?? undefined);
    let all = false;
    try {
      const result = await claim();
      all = takesAll(result);
      return result;
    } finally {
      if (tookOffer && all && startedAt > this.#offeredAt) this.#offer = null;
      else if (tookOffer) this.#sendOffer();
    }
  }

  #sendOffer(): void {
    if (this.#offer === null) return;
    clearTimeout(this.#offer);
    this.#offer = null;
    this.send({ kind: "work", inMs: 0 });
  }

  send(hint: Hint): void {
    // Workers poll for jobs that are due later; a notification now would wake them for nothing.
    if (hint.kind === "work" && hint.inMs > 0) return;
    if (hint.kind === "cancel") {
      this.#notify(hint);
      return;
    }
    if (this.#paused.has(hint.kind)) {
      this.#pending.set(hint.kind, hint);
      return;
    }
    this.#notify(hint);
    this.#pause(hint);
  }

  #pause(hint: Hint): void {
    const timer = setTimeout(
      () => {
        this.#paused.delete(hint.kind);
        if (this.#pending.delete(hint.kind)) this.send(hint);
      },
      hint.kind === "work" ? WORK_MS : OTHER_MS,
    );
    timer.unref();
    this.#paused.set(hint.kind, timer);
  }

  /**
   * Inside the caller's transaction, so that it is delivered at commit. This process does not know when that is, so the
   * notification has no sender, and this process receives it too.
   */
  async sendIn(runner: Runner, hint: Hint): Promise<void> {
    await runner.run(NOTIFY, this.#values(hint, "-"));
  }

  /** The same for notes of waits: a process that listens ends the waits after the commit. */
  async sendWakesIn(runner: Runner): Promise<void> {
    await runner.run(NOTIFY, [this.#channel, `- ${WAKES}`]);
  }

  #values(hint: Hint, from: string): string[] {
    const ids = hint.kind === "cancel" ? ` ${hint.ids.slice(0, 100).join(",")}` : "";
    return [this.#channel, `${from} ${hint.kind}${ids}`];
  }

  #notify(hint: Hint): void {
    // If it fails, only a hint is lost: polling finds the jobs. It waits for the next iteration of the event loop, so that
    // a claim of this process goes first.
    const sent = new Promise((resolve) => setImmediate(resolve))
      .then(() => this.#db.run(NOTIFY, this.#values(hint, this.#self)))
      .catch(() => {});
    this.#sending.add(sent);
    void sent.finally(() => this.#sending.delete(sent));
  }

  async stop(): Promise<void> {
    this.#sendOffer();
    for (const timer of this.#paused.values()) clearTimeout(timer);
    this.#paused.clear();
    // Pending hints are sent now.
    for (const hint of this.#pending.values()) this.#notify(hint);
    this.#pending.clear();
    await Promise.all(this.#sending);
  }
}
