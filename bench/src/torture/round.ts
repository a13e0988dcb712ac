import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Holdfast, Store } from "holdfast";
import type { Asleep, Evidence, RunJobs } from "./evidence.js";
import { historyFile, type Round } from "./faults.js";
import { readHistory, type Entry } from "./history.js";
import type { TortureJobs } from "./jobs.js";
import type { RoundPlan } from "./plan.js";
import type { WorkerPool } from "./worker-pool.js";

/** Where rounds run. */
export interface Site {
  hf: Holdfast;
  store: Store;
  jobs: TortureJobs;
  workers: WorkerPool;
  folder: string;
  pauseMs: number;
  /** A round whose jobs have not all ended by then has failed. */
  endWithinMs: number;
}

const POLL_MS = 100;
// A wait is looked at this long after its topic ended: what follows from a commit may be done shortly after it.
const ASLEEP_AFTER_MS = 2_000;
// A job that is due later than this sleeps. Longer than every sleep of a plan.
const ASLEEP_FOR_MS = 60_000;
// How long a process that was woken up may take to notice that its leases are lost.
const LATE_RUNS_MS = 5_000;

/** Runs a round to its end and collects what is known of it. */
export async function playRound(site: Site, plan: RoundPlan): Promise<Evidence> {
  const { folder } = roundFolder(site.folder, plan.seed);
  mkdirSync(folder);
  const round: Round = { folder, pauseMs: site.pauseMs };
  const file = historyFile(round);
  const jobs = await enqueueRuns(site, round, plan);
  const asleep = await untilEnded(site, file, jobs);
  await site.workers.noneStopped();
  await untilLateRunsEnded(site, file);

  const { store } = site;
  const steps = new Map<string, Awaited<ReturnType<Store["steps"]>>["steps"]>();
  const ended = new Map<string, Awaited<ReturnType<Store["get"]>>>();
  const look = async (id: string): Promise<void> => {
    ended.set(id, await store.get(id));
    steps.set(id, (await store.steps(id)).steps);
    for (const { kind, topic } of steps.get(id) ?? [])
      if (kind === "job" && topic !== null) await look(topic.slice("job:".length));
  };
  for (const id of jobs.flatMap(idsOf)) await look(id);
  return { plan, jobs, history: readHistory(file), ended, steps, asleep };
}

export function roundFolder(folder: string, seed: number): Pick<Round, "folder"> {
  return { folder: join(folder, `round-${seed}`) };
}

function idsOf({ main, emitters }: RunJobs): string[] {
  return [main, ...Object.values(emitters)];
}

async function enqueueRuns({ hf, jobs }: Site, round: Round, plan: RoundPlan): Promise<RunJobs[]> {
  const enqueued: RunJobs[] = [];
  for (const { index, steps, children, faults, emits } of plan.runs) {
    const emitters: Record<string, string> = {};
    for (const { event, delayMs, faults: inEmitter } of emits) {
      const input = { event, faults: inEmitter, round };
      emitters[event] = (await hf.enqueue(jobs.emitter, input, { delay: delayMs })).id;
    }
    const input = { seed: plan.seed, run: { index, steps, children }, faults, round };
    enqueued.push({ main: (await hf.enqueue(jobs.main, input)).id, emitters });
  }
  return enqueued;
}

/** Waits until all jobs have ended, or the time is over. Wakes waits that sleep through their topic, and returns them. */
async function untilEnded(site: Site, file: string, jobs: readonly RunJobs[]): Promise<Asleep[]> {
  const { store, endWithinMs } = site;
  const open = new Set(jobs.flatMap(idsOf));
  const mains = new Set(jobs.map(({ main }) => main));
  const asleep = new Map<string, Asleep>();
  const until = performance.now() + endWithinMs;
  while (open.size > 0 && performance.now() < until) {
    await sleep(POLL_MS);
    const parked: string[] = [];
    for (const id of open) {
      const job = await store.get(id);
      if (job === null || job.finishedAt !== null) open.delete(id);
      else if (mains.has(id) && job.state === "pending" && (job.dueAt ?? 0) > Date.now() + ASLEEP_FOR_MS)
        parked.push(id);
    }
    if (parked.length === 0) continue;
    const found = await findAsleep(store, parked, readHistory(file));
    for (const each of found) {
      const key = `${each.job} ${each.step}`;
      if (!asleep.has(key)) asleep.set(key, each);
    }
    if (found.length > 0) await store.repairWaits(500);
  }
  return [...asleep.values()];
}

/** The waits of parked jobs whose topics ended some time ago. */
async function findAsleep(store: Store, parked: readonly string[], history: readonly Entry[]): Promise<Asleep[]> {
  const before = Date.now() - ASLEEP_AFTER_MS;
  const emitted = new Set(
    history.flatMap((entry) => (entry.did === "topic ended" && entry.at < before ? entry.topic : [])),
  );
  const found: Asleep[] = [];
  for (const job of parked) {
    const { steps } = await store.steps(job);
    const waits = steps.filter(({ topic }) => topic !== null);
    // Members of a set wake their job when the last one has ended.
    const names = new Set(waits.filter(({ state }) => state === "waiting").map(({ name }) => name));
    for (const name of names) {
      const topics = waits.filter((step) => step.name === name).map(({ topic }) => topic ?? "");
      const over = await Promise.all(topics.map((topic) => isOver(store, topic, emitted, before)));
      if (over.every(Boolean)) found.push({ job, step: name, topic: topics.at(-1) as string, at: Date.now() });
    }
    // No wait is open, but the job was not woken when the last one ended.
    const last = waits.toSorted((one, other) => (one.endedAt ?? 0) - (other.endedAt ?? 0)).at(-1);
    if (names.size === 0 && last !== undefined && (last.endedAt ?? 0) < before)
      found.push({ job, step: last.name, topic: last.topic as string, at: Date.now() });
    // It was woken while this looked.
    const now = await store.get(job);
    if (now?.state !== "pending" || (now.dueAt ?? 0) <= Date.now() + ASLEEP_FOR_MS)
      found.splice(0, found.length, ...found.filter((each) => each.job !== job));
  }
  return found;
}

async function isOver(store: Store, topic: string, emitted: ReadonlySet<string>, before: number): Promise<boolean> {
  if (topic.startsWith("event:")) return emitted.has(topic);
  if (!topic.startsWith("job:")) return false;
  const finishedAt = (await store.get(topic.slice("job:".length)))?.finishedAt;
  return finishedAt != null && finishedAt < before;
}

/** Waits until no process still runs a handler, so that what late runs store is there to be checked. */
async function untilLateRunsEnded({ workers }: Site, file: string): Promise<void> {
  const until = performance.now() + LATE_RUNS_MS;
  while (performance.now() < until) {
    const alive = workers.pids();
    const running = new Set<string>();
    for (const entry of readHistory(file)) {
      if (entry.did === "run began" && alive.has(entry.pid)) running.add(`${entry.pid} ${entry.job}`);
      if (entry.did === "run ended") running.delete(`${entry.pid} ${entry.job}`);
    }
    if (running.size === 0) return;
    await sleep(POLL_MS);
  }
}
