/**
 * A separate process that works on a store, for `processes.ts`. Its first argument has its settings. It receives orders and
 * sends reports over the IPC channel. Every report is sent before the next step, so that a killed process has reported all but
 * its last step.
 */
import type { ClaimedJob, LeaseResult, LeaseRef, SettleResult, Store } from "../../store.js";
import { claimRequest, insertAll, newJobs, outcomeOf, settleAll } from "./builders.js";
import { fireSome } from "./schedulers.js";
import { pollInterval, randomFrom } from "./until.js";

export interface Settings {
  opener: string | null;
  address: string;
  worker: string;
  /**
   * works: claims and completes jobs until the order to stop. sleeps: the same, but first claims a batch and waits for the order
   * `continue` before it settles it. hoards: the same, but never settles its first batch. enqueues: only inserts. schedules:
   * fires due slots.
   */
  role: "works" | "sleeps" | "hoards" | "enqueues" | "schedules";
  leaseMs: number;
  batch: number;
  seed: number;
}

export type Report =
  | { kind: "ready" | "firing" }
  | { kind: "claimed"; at: number; jobs: LeaseRef[] }
  | { kind: "holding"; leases: LeaseRef[] }
  | { kind: "settled"; outcomes: (LeaseRef & { result: SettleResult })[] }
  | { kind: "came back"; start: LeaseResult[]; extend: LeaseResult[]; settle: SettleResult[] }
  | { kind: "enqueued" | "fired"; ids: string[] };

export type Order = "go" | "continue" | "stop";

const settings = JSON.parse(process.argv[2] ?? "{}") as Settings;
const orders = new Set<Order>();
process.on("message", (order: Order) => orders.add(order));
// Ends the process when its test has failed.
process.on("disconnect", () => process.exit(0));

function report(message: Report): Promise<void> {
  return new Promise((resolve, reject) => {
    process.send?.(message, undefined, undefined, (error: Error | null) =>
      error === null ? resolve() : reject(error),
    );
  });
}

async function ordered(order: Order): Promise<void> {
  while (!orders.has(order)) await pollInterval();
}

async function main(): Promise<void> {
  const { opener } = settings;
  const { openStore } = (opener === null ? await import("../../engine/open-store.js") : await import(opener)) as {
    openStore: (address: string) => Promise<Store>;
  };
  const store = await openStore(settings.address);
  await store.migrate();
  await report({ kind: "ready" });
  await ordered("go");
  if (settings.role === "enqueues") await enqueue(store);
  else if (settings.role === "schedules") await schedule(store);
  else await work(store);
  await store.close();
  process.disconnect();
}

async function enqueue(store: Store): Promise<void> {
  while (!orders.has("stop")) {
    const jobs = newJobs(settings.batch);
    const results = await insertAll(store, jobs);
    await report({
      kind: "enqueued",
      ids: jobs.filter((_, n) => results[n]?.status === "inserted").map((job) => job.id),
    });
  }
}

async function schedule(store: Store): Promise<void> {
  const random = randomFrom(settings.seed);
  while (!orders.has("stop")) {
    const { schedules } = await store.dueSchedules(1 + random(settings.batch));
    if (schedules.length === 0) {
      await pollInterval();
      continue;
    }
    await report({ kind: "firing" });
    await report({ kind: "fired", ids: await fireSome(store, schedules, random) });
  }
}

async function work(store: Store): Promise<void> {
  const random = randomFrom(settings.seed);
  let first = true;
  while (!orders.has("stop")) {
    const limit = 1 + random(settings.batch);
    const { at, jobs } = await store.claim(claimRequest({ worker: settings.worker, limit, leaseMs: settings.leaseMs }));
    if (jobs.length === 0) {
      await pollInterval();
      continue;
    }
    await report({ kind: "claimed", at, jobs: jobs.map(leaseRef) });
    if (first && settings.role !== "works") await report({ kind: "holding", leases: jobs.map(leaseRef) });
    if (first && settings.role === "sleeps") await comeBack(store, jobs);
    else if (!first || settings.role !== "hoards") await settle(store, jobs);
    first = false;
  }
}

async function settle(store: Store, jobs: readonly ClaimedJob[]): Promise<void> {
  const results = await settleAll(
    store,
    jobs.map((job) => outcomeOf(job, "completed", { output: `"${settings.worker}"` })),
  );
  await report({
    kind: "settled",
    outcomes: jobs.map((job, n) => ({ ...leaseRef(job), result: results[n] ?? "lost" })),
  });
}

/** Continues with leases that have expired. */
async function comeBack(store: Store, jobs: readonly ClaimedJob[]): Promise<void> {
  await ordered("continue");
  await report({
    kind: "came back",
    start: await store.start(jobs.map((job) => ({ ...leaseRef(job), startedAt: Date.now() }))),
    extend: await store.extend(jobs.map(leaseRef), settings.leaseMs),
    settle: await settleAll(
      store,
      jobs.map((job) => outcomeOf(job, "completed", { output: `"too late"` })),
    ),
  });
}

function leaseRef({ id, fence }: LeaseRef): LeaseRef {
  return { id, fence };
}

await main();
