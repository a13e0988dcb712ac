import { Agent, request } from "node:http";
import type { Bench, Row, Samples, Trial } from "../case.js";
import { figure, percentiles, plainRow } from "../figures.js";
import { startRole } from "../process.js";
import type { Drained } from "../roles/serve.js";

/** A request to a route of the site. */
export interface Call {
  path: string;
  body: string;
  headers: Readonly<Record<string, string>>;
  /** The status of its response. */
  expect: number;
}

/** The milliseconds of each request, and what the worker did meanwhile. */
export interface Served extends Drained {
  taken: number[];
}

const WARM_UP = 30;

export interface Site {
  send(call: Call): Promise<number>;
  stop(): Promise<Drained>;
}

/** Starts a site in a process of its own. Its worker is in the same process, or in one more, and drains jobs or is idle. */
export async function startSite(
  { bed }: Bench,
  url: string,
  { draining, sameProcess, worker: hasWorker = true }: { draining: boolean; sameProcess: boolean; worker?: boolean },
): Promise<Site> {
  const { concurrency } = bed.limits;
  let listens: (port: number) => void = () => {};
  const listening = new Promise<number>((resolve) => (listens = resolve));
  const worker = sameProcess && hasWorker ? (draining ? "drains" : "idle") : "none";
  const server = startRole("serve", { url, concurrency, worker }, (port) => listens(port));
  await server.ready;
  server.go();
  const started = await Promise.race([listening, server.result]);
  if (typeof started !== "number") throw new Error("the server has ended");
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const end = sameProcess ? null : await startWorker(url, concurrency);
  return {
    // The error of a process that ended says more than that of the request.
    send: async (call) => {
      const sent = post(agent, started, call);
      const result = await Promise.race([sent, server.result.then(() => null)]);
      if (result === null) throw new Error("the server has ended");
      return result;
    },
    async stop() {
      agent.destroy();
      const drained = await end?.();
      server.stop();
      const own = await server.result;
      return drained ?? own;
    },
  };
}

/** Waits until it has jobs. */
async function startWorker(url: string, concurrency: number): Promise<() => Promise<Drained>> {
  let works: () => void = () => {};
  const working = new Promise<void>((resolve) => (works = resolve));
  const worker = startRole("work", { url, concurrency }, () => works());
  await worker.ready;
  worker.go();
  await Promise.race([working, worker.result]);
  return async () => {
    worker.stop();
    return worker.result;
  };
}

/** Sends a request and reads its response. Returns the milliseconds. */
function post(agent: Agent, port: number, { path, body, headers, expect }: Call): Promise<number> {
  return new Promise((resolve, reject) => {
    const begun = performance.now();
    const outgoing = request({ host: "127.0.0.1", port, path, method: "POST", agent, headers }, (response) => {
      response.resume();
      response.once("end", () => {
        if (response.statusCode === expect) resolve(performance.now() - begun);
        else reject(new Error(`${path} responded ${response.statusCode} instead of ${expect}`));
      });
      response.once("error", reject);
    });
    outgoing.once("error", reject);
    outgoing.end(body);
  });
}

/** Requests to a route, one after the other, while a worker drains jobs in the process of the server, or in another one. */
export function drainingTrials(
  bench: Bench,
  name: string,
  callOf: (index: number) => Call,
): { sameProcess: Trial<Served>; otherProcess: Trial<Served> } {
  const trial = (sameProcess: boolean): Trial<Served> => {
    const where = sameProcess ? "the same process" : "another process";
    return {
      name: `${name}, worker in ${where}`,
      about: `${name} requests while a worker in ${where} drains`,
      async run(progress) {
        const place = await bench.bed.place([]);
        const site = await startSite(bench, place.url, { draining: true, sameProcess });
        const taken: number[] = [];
        const count = WARM_UP + bench.scale.samples;
        for (let index = 0; index < count; index++) {
          const ms = await site.send(callOf(index));
          if (index >= WARM_UP) taken.push(ms);
          progress(index / count);
        }
        const drained = await site.stop();
        if (drained.ran === 0) throw new Error("the worker ran no job");
        await place.remove();
        return { ...drained, taken };
      },
    };
  };
  return { sameProcess: trial(true), otherProcess: trial(false) };
}

/** The rows of such trials. */
export function drainingRows(
  { sameProcess, otherProcess }: ReturnType<typeof drainingTrials>,
  samples: Samples,
  below: number,
): Row[] {
  return [
    { suffix: "", trial: sameProcess, where: "a worker in the same process" },
    { suffix: "Apart", trial: otherProcess, where: "a worker in another process" },
  ].flatMap(({ suffix, trial, where }) => {
    const served = samples.of(trial);
    const taken = served.map((each) => each.taken);
    const rates = served.map(({ ran, seconds }) => ran / seconds);
    return [
      plainRow(
        { name: `p95${suffix}`, label: `response while ${where} drains, p95`, figure: percentiles(taken, 0.95) },
        { below },
      ),
      plainRow({ name: `p50${suffix}`, label: "the same, p50", figure: percentiles(taken, 0.5) }),
      plainRow({ name: `drained${suffix}`, label: "jobs drained meanwhile", figure: figure("jobs/s", rates) }),
    ];
  });
}
