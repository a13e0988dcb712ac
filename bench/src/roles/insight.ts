import { holdfast, job, type Holdfast, type JobType, type ListOptions } from "holdfast";
import type { ErrorGroupRecord, HistoryRecord, HistoryResolution, Store } from "holdfast/store";
import { noop, payload } from "../jobs.js";
import { openStore } from "../open-store.js";
import { meteredStore, noUnits } from "./meter.js";
import type { Stage } from "./role.js";

export interface InsightOrder {
  url: string;
  /** How often each call is made. */
  times: number;
  /** Jobs with the same error, and due jobs that wait. */
  jobs: number;
  /** Count requests instead of milliseconds. */
  isMetered: boolean;
}

const GROUPS = 1_000;
const GROUPS_AT_ONCE = 100;
const PAIRS = 5;
const LARGE_JOBS = 50;
const LARGE_BYTES = 200_000;
const LARGE = "large";
const PAGE = 50;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const RECORDS_AT_ONCE = 100;

const failing: JobType = job({
  type: "bench.failing",
  retry: { maxAttempts: 1 },
  run: () => {
    throw new Error("it fails, like the others");
  },
});

/** What an operator asks for, among the jobs of the place: the milliseconds or the requests of each call. */
export async function insight(order: InsightOrder, stage: Stage): Promise<Record<string, number[]>> {
  const { url, times, isMetered } = order;
  await fill(order);
  const units = noUnits();
  const store = isMetered ? meteredStore(url, units) : await openStore(url);
  const hf = await holdfast({ store, logger: false });
  const calls = await callsOf(hf);
  await stage.ready();
  const taken: Record<string, number[]> = {};
  for (const [name, call] of Object.entries(calls)) {
    // The first call prepares statements and fills caches for the others.
    await call();
    taken[name] = [];
    while (taken[name].length < times) {
      units.requests = 0;
      const begun = performance.now();
      await call();
      taken[name].push(isMetered ? units.requests : performance.now() - begun);
    }
    stage.progress(Object.keys(taken).length / Object.keys(calls).length);
  }
  await hf.close();
  return taken;
}

async function callsOf(hf: Holdfast): Promise<Record<string, () => Promise<unknown>>> {
  const list = (options: ListOptions) => () => hf.list({ limit: PAGE, ...options });
  const none = { path: "order.id", equals: "none" };
  const { jobs } = await hf.list({ queue: "default", state: "pending", limit: 1 });
  const [waiting] = jobs;
  const groups = await hf.errorGroups({ type: failing.type });
  const fingerprint = groups[0]?.fingerprint;
  if (waiting === undefined || fingerprint === undefined) throw new Error("there is no waiting job or no error group");
  return {
    "search by input": list({ input: none }),
    "search by input, of one type": list({ input: none, type: "bench.noop" }),
    "search by input, large ones": list({ input: { text: "none" }, queue: LARGE }),
    "search by error": list({ error: "none" }),
    "count by tag": () => hf.count({ tag: "common" }),
    "count by priority": () => hf.count({ priority: 0 }),
    "count by type": () => hf.count({ type: "bench.noop" }),
    "count by input": () => hf.count({ input: none }),
    explain: () => hf.explain(waiting.id),
    "error groups": () => hf.errorGroups(),
    "jobs of a group": list({ fingerprint, payloads: false }),
    "count of a group": () => hf.count({ fingerprint }),
    "history of a day": () => hf.history({ from: Date.now() - DAY_MS + MINUTE_MS, by: "type" }),
    "history of 30 days": () => hf.history({ from: Date.now() - 30 * DAY_MS, by: "type" }),
  };
}

/** Adds what the other cases have not: jobs that failed or wait, large inputs, error groups and history. */
async function fill({ url, jobs }: InsightOrder): Promise<void> {
  const hf = await holdfast({ store: url, jobs: [failing], logger: false });
  const type = noop(() => {});
  const some = Array.from({ length: jobs }, () => payload());
  await hf.enqueueMany(
    failing,
    some.map(() => ({})),
    { each: (_, nth) => ({ queue: `queue-${nth % PAIRS}` }) },
  );
  await hf.drain();
  await hf.enqueueMany(type, some, { priority: 5 });
  await hf.enqueue(type, payload());
  const large = Array.from({ length: LARGE_JOBS }, () => payload(LARGE_BYTES));
  await hf.enqueueMany(type, large, { queue: LARGE, delay: "1d" });
  // Writes the counts of this minute, which stand for all others.
  await hf.close();
  const store = await openStore(url);
  for (let from = 0; from < GROUPS; from += GROUPS_AT_ONCE) {
    await store.recordErrors(Array.from({ length: GROUPS_AT_ONCE }, (_, nth) => errorGroup(from + nth)));
  }
  await fillHistory(store);
  await store.close();
}

function errorGroup(nth: number): ErrorGroupRecord {
  const at = Date.now() - DAY_MS + nth;
  const message = `failure ${String.fromCharCode(97 + (nth % 26))} of <id>`;
  const text = { name: "Error", code: null, message, frame: "run (jobs.ts)", example: message };
  const fingerprint = (nth + 1).toString(16).padStart(16, "e");
  return { fingerprint, type: "bench.failing", ...text, count: 1, firstAt: at, lastAt: at, job: fingerprint };
}

/** The same counts for each minute of a day and each hour of 30 days. */
async function fillHistory(store: Store): Promise<void> {
  const now = Date.now();
  const { records } = await store.history({
    resolution: "minute",
    from: now - HOUR_MS,
    to: now + MINUTE_MS,
    limit: 1,
    after: null,
  });
  const data = records[0]?.data;
  if (data === undefined) throw new Error("no history was written");
  const recordsOf = (resolution: HistoryResolution, stepMs: number, count: number): HistoryRecord[] =>
    Array.from({ length: count }, (_, nth) => {
      return { resolution, at: (Math.floor(now / stepMs) - nth - 1) * stepMs, writer: "merged", data };
    });
  const all = [
    ...recordsOf("minute", MINUTE_MS, DAY_MS / MINUTE_MS),
    ...recordsOf("hour", HOUR_MS, (30 * DAY_MS) / HOUR_MS),
  ];
  for (let from = 0; from < all.length; from += RECORDS_AT_ONCE) {
    await store.putHistory(all.slice(from, from + RECORDS_AT_ONCE));
  }
}
