import { ALL_QUEUES } from "../../defaults.js";
import { lengthOf } from "../../duration.js";
import { isLive } from "../../live-worker.js";
import { truncate } from "../../job/json.js";
import { isFinished, isLeased } from "../../job/state.js";
import { PARKED_AT } from "../../job/stored-step.js";
import type { QueueRecord, StoredJob, StoredStep, StoredWorker } from "../../store.js";
import { NO_HANDLER } from "../worker/decide-outcome.js";
import { timeText, type Reason, type ReasonKind } from "./reason.js";
import { waitReasons } from "./wait-reasons.js";

/** What is known about a job and its surroundings. */
export interface Situation {
  job: StoredJob;
  queues: readonly QueueRecord[];
  workers: readonly StoredWorker[];
  /** Due jobs that come first, counted up to `maxAhead`. */
  ahead: number;
  maxAhead: number;
  /** Of a job that waits and began before; empty for others. */
  steps: readonly StoredStep[];
  /** The other job that holds the unique key of a finished job. */
  keyHolder: string | null;
}

const MAX_NAMES = 5;
const MAX_MESSAGE_LENGTH = 200;

/** All reasons, the decisive one first. Never empty. */
export function reasonsOf(situation: Situation, now: number): Reason[] {
  const { state } = situation.job;
  if (isFinished(state)) return finishedReasons(situation);
  if (isLeased(state)) {
    const reasons = leasedReasons(situation, now);
    // Then it waits for another worker, so what keeps those from it counts too.
    if (!reasons.some(({ kind }) => kind === "worker-lost")) return reasons;
    return [...reasons, ...pauseReasons(situation, now), ...workerReasons(situation, now)];
  }
  const waits = waitReasons(situation.steps, now);
  const found = [
    ...(waits.length > 0 ? waits : timeReasons(situation.job, now)),
    ...pauseReasons(situation, now),
    ...workerReasons(situation, now),
    ...aheadReasons(situation),
    ...busyReasons(situation, now),
  ];
  return found.length > 0 ? found : [READY];
}

const READY: Reason = {
  kind: "ready",
  text: "It is due and nothing holds it back: a worker claims it with its next poll.",
  change:
    "If it still waits after a few seconds, see whether the process of its worker has paused it: worker.resume().",
  until: null,
};

const PARKED: Reason = {
  kind: "due-later",
  text: "What its steps waited for has ended, and it will be made due.",
  change: "Maintenance does that within a minute; hf.promote(id) does it now.",
  until: null,
};

/** For a caller who may see only one user's jobs: nothing about workers, operators and other users' jobs. */
const USER_TEXTS: Readonly<Record<string, string>> = {
  leased: "A worker runs it.",
  "worker-lost": "Its worker was lost. Another one claims it when the lease has ended.",
  cancelling: "Cancellation was requested, and it has not stopped yet.",
  "no-handler": "No worker can run its type yet.",
  "waits-for-event": "It waits for an event.",
  "waits-for-job": "It waits for another job.",
  paused: "Its queue is paused.",
  "no-worker": "No worker takes it now.",
  ahead: "Other jobs come first.",
  busy: "All workers are busy.",
  ready: "It is due and starts soon.",
};

export function withoutOthers({ kind, text, change, until }: Reason): Reason {
  const shown = USER_TEXTS[kind];
  return shown === undefined ? { kind, text, change, until } : { kind, text: shown, change: null, until };
}

function finishedReasons({ job, keyHolder }: Situation): Reason[] {
  const at = job.finishedAt === null ? "" : ` at ${timeText(job.finishedAt)}`;
  const attempts = job.attempt === 1 ? "1 attempt" : `${job.attempt} attempts`;
  if (job.state === "completed") {
    const text = `It completed${at} after ${attempts}.`;
    return [reason("completed", text, "hf.rerun(id) enqueues a new job with the same input.")];
  }
  const why = job.error === null ? "" : `: ${quoted(job.error.message)}`;
  const change = keyHolder === null ? RETRY : `${RETRY.slice(0, -1)}, once its unique key is free.`;
  const ended =
    job.state === "dead"
      ? reason("dead", `It has been dead since ${timeText(job.finishedAt ?? 0)}, after ${attempts}${why}.`, change)
      : reason("cancelled", `It was cancelled${at}${why}.`, change);
  if (keyHolder === null) return [ended];
  const text = `It cannot be retried now: job ${keyHolder} holds its unique key.`;
  return [ended, { ...reason("key-held", text, keyHeldChange(keyHolder)), job: keyHolder }];
}

const RETRY = "hf.retry(id) makes it run again.";

function keyHeldChange(holder: string): string {
  return `Wait for job ${holder} to end, or cancel it. If the key is held for a period or forever, hf.remove("${holder}") frees it after that.`;
}

function leasedReasons({ job, workers }: Situation, now: number): Reason[] {
  const worker = workers.find(({ id }) => id === job.worker);
  const until = job.dueAt === null ? null : new Date(job.dueAt);
  const hasEnded = until !== null && until.getTime() <= now;
  const time = until === null ? "" : timeText(until.getTime());
  const ends = until === null ? "" : ` Its lease ${hasEnded ? "ended" : "ends"} at ${time}.`;
  const expiry = until === null || hasEnded ? "" : `: leased until ${time}`;
  const doing = job.state === "running" ? "runs it" : "has claimed it and will start it";
  const seen = worker === undefined ? "" : `, last heartbeat ${lengthOf(Math.max(0, now - worker.seenAt))} ago`;
  const name = job.worker ?? "unknown";
  // Without a record it is no worker but such a call: a worker registers before it claims, and its record outlives its leases.
  const isCall = worker === undefined && !hasEnded;
  const isLost = !isCall && (worker === undefined || !isLive(worker, now));
  const who =
    worker === undefined
      ? `A call of hf.drain(), hf.runNext() or hf.claim() (${name})`
      : `Worker ${name} on ${worker.host}`;
  const leased: Reason = isLost
    ? {
        kind: "worker-lost",
        text: `Worker ${name} had it, but ${worker === undefined ? "did not settle it" : `is not live any more${seen}`}.${ends}`,
        change: hasEnded ? "The next poll of a live worker claims it." : LOST_CHANGE,
        until: hasEnded ? null : until,
        workers: [name],
      }
    : {
        kind: "leased",
        text: `${who} ${doing}${expiry}${seen}.${hasEnded ? ends : ""}`,
        change: hasEnded ? "The next poll of a live worker claims it." : "hf.cancel(id) aborts it.",
        until: hasEnded ? null : until,
        workers: [name],
      };
  if (job.cancelRequestedAt === null) return [leased];
  const requested = `Cancellation was requested at ${timeText(job.cancelRequestedAt)}`;
  if (isLost) {
    const text = `${requested}, but its worker is not live any more; maintenance cancels it when its lease has ended.`;
    return [reason("cancelling", text, "Maintenance of any worker does that, or hf.maintain()."), leased];
  }
  const text = `${requested}; its handler has not stopped yet.`;
  return [
    reason("cancelling", text, "It ends when the handler reacts to its abort signal."),
    { ...leased, change: null },
  ];
}

const LOST_CHANGE = "When the lease has ended, another worker claims the job.";

function timeReasons(job: StoredJob, now: number): Reason[] {
  if (job.expiresAt !== null && job.expiresAt <= now) {
    const before = job.state === "failed" ? "its next attempt" : "a worker claimed it";
    const text = `It expired at ${timeText(job.expiresAt)}, before ${before}; maintenance dead-letters it.`;
    return [reason("expired", text, "hf.retry(id) runs it again without an expiry, once it is dead.")];
  }
  if (job.dueAt === null || job.dueAt <= now) return [];
  if (job.dueAt >= PARKED_AT) return [PARKED];
  const until = new Date(job.dueAt);
  const when = `in ${lengthOf(job.dueAt - now)}, at ${timeText(job.dueAt)}`;
  const change = "hf.promote(id) makes it due now.";
  if (job.error?.code === NO_HANDLER) {
    const text = `Workers claimed it but have no handler for its type; the next one looks at it ${when}.`;
    return [{ kind: "no-handler", text, change: `Start a worker whose jobs include "${job.type}".`, until }];
  }
  if (job.state === "failed") {
    const why = job.error === null ? "" : ` after ${quoted(job.error.message)}`;
    const text = `It waits for attempt ${job.attempt + 1} of ${job.maxAttempts}${why}: due ${when}.`;
    return [{ kind: "retry", text, change, until }];
  }
  return [{ kind: "due-later", text: `It is due ${when}.`, change, until }];
}

function pauseReasons({ job, queues }: Situation, now: number): Reason[] {
  const paused = queues.filter((each) => each.paused || each.queue === ALL_QUEUES);
  return paused
    .filter(({ queue }) => queue === job.queue || queue === ALL_QUEUES)
    .map(({ queue, pausedAt, pausedBy }) => {
      const all = queue === ALL_QUEUES;
      const by = pausedBy === null ? "" : ` by ${pausedBy}`;
      const since = pausedAt === null ? "" : ` for ${lengthOf(Math.max(0, now - pausedAt))}`;
      const [are, have] = all ? ["All queues are", "All queues have"] : [`Queue "${queue}" is`, `Queue "${queue}" has`];
      const text = `${since === "" ? are : `${have} been`} paused${by}${since}.`;
      const change = all ? "hf.resume() resumes them." : `hf.resume("${queue}") resumes it.`;
      return { ...reason("paused", text, change), queue: all ? null : queue };
    });
}

function workerReasons({ job, workers }: Situation, now: number): Reason[] {
  const live = workers.filter((worker) => isLive(worker, now));
  if (live.some((worker) => takes(worker, job))) return [];
  const draining = live.filter((worker) => takes({ ...worker, draining: false }, job));
  if (draining.length > 0) {
    const text = `${draining.length === 1 ? "The worker that takes it drains and claims" : `The ${draining.length} workers that take it drain and claim`} no more jobs.`;
    return [{ ...reason("no-worker", text, "Start another worker, or resume this one."), workers: ids(draining) }];
  }
  const change = `Start a worker that serves queue "${job.queue}" and has a handler for "${job.type}".`;
  if (live.length === 0) return [reason("no-worker", "No worker is live.", change)];
  const ofQueue = live.filter(({ queues }) => queues === null || queues.includes(job.queue));
  const text =
    ofQueue.length === 0
      ? `No live worker serves queue "${job.queue}"; the live ones serve ${namesOf(live.flatMap(({ queues }) => queues ?? []))}.`
      : `No live worker of queue "${job.queue}" has a handler for "${job.type}"; they have ${namesOf(ofQueue.flatMap(({ types }) => types))}.`;
  return [{ ...reason("no-worker", text, change), workers: ids(live) }];
}

function aheadReasons({ ahead, maxAhead }: Situation): Reason[] {
  if (ahead === 0) return [];
  const count = ahead >= maxAhead ? `At least ${numberText(ahead)}` : numberText(ahead);
  const text = `${count} due ${ahead === 1 ? "job of its queue comes" : "jobs of its queue come"} first: higher priority, or due earlier.`;
  return [
    {
      ...reason("ahead", text, "More workers or a higher concurrency; hf.update(id, { priority }) moves it up."),
      jobs: ahead,
    },
  ];
}

function busyReasons({ job, workers }: Situation, now: number): Reason[] {
  const able = workers.filter((worker) => isLive(worker, now) && takes(worker, job));
  if (able.length === 0 || able.some(({ running, concurrency }) => running < concurrency)) return [];
  const capacity = able.reduce((sum, { concurrency }) => sum + concurrency, 0);
  const jobs = capacity === 1 ? "1 job" : `${numberText(capacity)} jobs`;
  const text = `The ${able.length === 1 ? "worker that takes it runs" : `${able.length} workers that take it run`} ${jobs}, as many as allowed.`;
  return [{ ...reason("busy", text, "More workers, or a higher concurrency."), workers: ids(able) }];
}

function takes({ queues, types, draining }: StoredWorker, job: StoredJob): boolean {
  return !draining && (queues === null || queues.includes(job.queue)) && types.includes(job.type);
}

function reason(kind: ReasonKind, text: string, change: string): Reason {
  return { kind, text, change, until: null };
}

function ids(workers: readonly StoredWorker[]): string[] {
  return workers.slice(0, MAX_NAMES).map(({ id }) => id);
}

function namesOf(given: readonly string[]): string {
  const names = [...new Set(given)].toSorted();
  if (names.length === 0) return "none";
  const shown = names.slice(0, MAX_NAMES).map((name) => `"${name}"`);
  return names.length > MAX_NAMES ? `${shown.join(", ")} and ${names.length - MAX_NAMES} more` : shown.join(", ");
}

/** The beginning of a message: it may have thousands of characters. */
function quoted(message: string): string {
  return `"${truncate(message, MAX_MESSAGE_LENGTH)}"`;
}

function numberText(count: number): string {
  return count.toLocaleString("en-US");
}
