import { setTimeout as sleep } from "node:timers/promises";
import { holdfast, type Holdfast } from "holdfast";
import { noop, payload } from "../jobs.js";
import { meteredStore, noUnits, type Units } from "./meter.js";
import type { Stage } from "./role.js";
import { stuck } from "./stuck.js";

interface Metered {
  units: Units;
  hf: Holdfast;
  type: ReturnType<typeof noop>;
}

async function open(url: string, units: Units): Promise<Metered> {
  const type = noop(() => {});
  return { units, type, hf: await holdfast({ store: meteredStore(url, units), jobs: [type], logger: false }) };
}

/** Resolves when this many jobs have completed in any of the workers. */
async function completed(clients: readonly Holdfast[], count: number, stage: Stage): Promise<void> {
  let done = 0;
  let enough: () => void = () => {};
  const all = new Promise<void>((resolve) => (enough = resolve));
  const stall = stuck(clients[0] as Holdfast, () => done);
  for (const hf of clients) {
    hf.on("completed", () => {
      stage.progress(++done);
      if (done === count) enough();
    });
  }
  await Promise.race([all, stall.failure]);
  stall.stop();
}

/** Claims jobs in batches and completes them. Returns the cost of the claims. */
export async function meteredClaims(
  { url, expect, limit }: { url: string; expect: number; limit: number },
  stage: Stage,
): Promise<Units> {
  const units = noUnits();
  const { hf } = await open(url, units);
  await stage.ready();
  const cost = noUnits();
  let claimed = 0;
  while (claimed < expect) {
    Object.assign(units, noUnits());
    const leases = await hf.claim({ limit });
    if (leases.length === 0) throw new Error(`nothing to claim after ${claimed} of ${expect} jobs`);
    for (const name of Object.keys(cost) as (keyof Units)[]) cost[name] += units[name];
    await Promise.all(leases.map((lease) => lease.complete()));
    claimed += leases.length;
    stage.progress(claimed);
  }
  await hf.close();
  return cost;
}

export interface JobsOrder {
  url: string;
  jobs: number;
  workers: number;
  concurrency: number;
  /** Each job has its own unique key. */
  keyed: boolean;
}

/** Enqueues jobs for several competing workers. Returns the cost from enqueue to completion. */
export async function meteredJobs(order: JobsOrder, stage: Stage): Promise<Units> {
  const { url, jobs, workers, concurrency, keyed } = order;
  const units = noUnits();
  const clients = await Promise.all(Array.from({ length: workers }, () => open(url, units)));
  await stage.ready();
  const done = completed(
    clients.map(({ hf }) => hf),
    jobs,
    stage,
  );
  Object.assign(units, noUnits());
  const [{ hf, type }] = clients as [Metered];
  if (keyed) await Promise.all([...Array(jobs).keys()].map((n) => hf.enqueue(type, payload(), { unique: String(n) })));
  else
    await hf.enqueueMany(
      type,
      Array.from({ length: jobs }, () => payload()),
    );
  for (const client of clients) client.hf.work({ concurrency });
  await done;
  const { table, live, lost, reads } = units;
  for (const client of clients) await client.hf.close();
  // Counters are written at the latest on close. The deregistration of a worker is not part of a job's cost.
  return { ...units, table, live, lost, reads };
}

// Wait until all work of the start is done, but not longer than the measurement itself.
const SETTLE_MS = 3_000;

/** An idle worker and scheduler. */
export async function idleUnits(
  { url, watchedMs }: { url: string; watchedMs: number },
  stage: Stage,
): Promise<{ units: Units; seconds: number }> {
  const units = noUnits();
  const { hf, type } = await open(url, units);
  await hf.schedule("yearly", { job: type, input: payload(), cron: "0 0 1 1 *" });
  hf.work({ concurrency: 10 });
  await sleep(Math.min(SETTLE_MS, watchedMs));
  await stage.ready();
  Object.assign(units, noUnits());
  const begun = performance.now();
  await sleep(watchedMs);
  const taken = { units: { ...units }, seconds: (performance.now() - begun) / 1_000 };
  await hf.close();
  return taken;
}
