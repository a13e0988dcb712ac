import type { JobDetail, QueueResult, ReasonResult, WorkerResult } from "holdfast/admin";
import { coarse, number, plural, relative } from "../../app/format.js";
import type { IconName } from "../../ui/icon.js";
import { cut } from "../../ui/json-model.js";
import { plain } from "./error-text.js";

/** What a reason offers to do, if the role may. */
export type WhyAction =
  | { kind: "promote" | "workers" | "queues" | "priority" }
  | { kind: "resume"; queue: string | null }
  | { kind: "job"; id: string };

export interface Why {
  title: string;
  /** What would change it. */
  text: string;
  icon: IconName;
  /** The state whose colour it has. */
  colour: string;
  actions: WhyAction[];
}

type WhyJob = Pick<
  JobDetail,
  "state" | "type" | "queue" | "attempt" | "maxAttempts" | "error" | "dueAt" | "finishedAt" | "worker" | "attempts"
>;

/** A reason in words for people; `reason.text` and `change` are for programmers, with times in UTC. */
export function whyOf(reason: ReasonResult, job: WhyJob, now: number): Why {
  const until = reason.until === null ? null : Date.parse(reason.until);
  const when = until === null ? "" : relative(until, now);
  const known = KNOWN[reason.kind]?.(reason, job, when, now);
  const why: Why = {
    title: reason.text,
    text: reason.change ?? "",
    icon: "info",
    colour: "pending",
    actions: [],
    ...known,
  };
  return { ...why, title: plain(why.title), text: plain(why.text) };
}

type Words = (reason: ReasonResult, job: WhyJob, when: string, now: number) => Partial<Why>;

const KNOWN: Readonly<Record<string, Words>> = {
  completed: (_reason, { finishedAt, attempts, attempt }, _when, now) => ({
    title: `It completed${finishedAt === null ? "" : ` ${relative(Date.parse(finishedAt), now)}`}.`,
    text:
      Math.max(attempt, attempts.length) > 1
        ? `It took ${plural(attempt, "attempt")}. A rerun enqueues a new job with the same input.`
        : "A rerun enqueues a new job with the same input.",
    icon: "completed",
    colour: "completed",
  }),
  dead: (_reason, job) => ({
    title: deadTitle(job),
    text: "A dead job runs again only if you retry it.",
    icon: "dead",
    colour: "dead",
  }),
  cancelled: (_reason, { error }) => ({
    title: `It was cancelled${error === null ? "." : `: ${short(error.message)}`}`,
    text: "A cancelled job runs again only if you retry it.",
    icon: "cancelled",
    colour: "cancelled",
  }),
  "key-held": ({ job }) => ({
    title: "It cannot be retried now: another job holds its unique key.",
    text: "Wait until that job has ended, or cancel it.",
    icon: "lock",
    colour: "failed",
    actions: job === undefined ? [] : [{ kind: "job", id: job }],
  }),
  leased: ({ workers }, { state, worker }, when) => ({
    title:
      state === "running"
        ? `It is running on ${workers?.[0] ?? worker ?? "a worker"}.`
        : `${workers?.[0] ?? worker ?? "A worker"} has claimed it and starts it.`,
    text: when === "" ? "" : `Its lease ends ${when} unless the worker extends it.`,
    icon: state === "running" ? "running" : "claimed",
    colour: state === "running" ? "running" : "claimed",
    actions: workers === undefined ? [] : [{ kind: "workers" }],
  }),
  "worker-lost": ({ workers }, { worker }, when) => ({
    title: `Its worker${nameOf(workers?.[0] ?? worker)} is missing.`,
    text: `Another worker claims it when its lease ends${when === "" ? "" : `, ${when}`}.`,
    icon: "offline",
    colour: "failed",
    actions: workers === undefined ? [] : [{ kind: "workers" }],
  }),
  cancelling: () => ({
    title: "Cancellation was requested.",
    text: "It ends when its handler reacts to the abort signal.",
    icon: "stop",
    colour: "failed",
  }),
  expired: () => ({
    title: "It expired before a worker claimed it.",
    text: "It will be dead within a minute. A retry then runs it without an expiry.",
    icon: "clock",
    colour: "dead",
  }),
  "due-later": (_reason, _job, when) => ({
    title: `It is due ${when}.`,
    text: "Run it now, or change its time.",
    icon: "clock",
    colour: "pending",
    actions: [{ kind: "promote" }],
  }),
  retry: (_reason, { attempt, maxAttempts, error }, when) => ({
    title: `It waits for attempt ${attempt + 1} of ${maxAttempts}, due ${when}.`,
    text: error === null ? "" : `Attempt ${attempt} failed: ${short(error.message)}`,
    icon: "failed",
    colour: "failed",
    actions: [{ kind: "promote" }],
  }),
  "no-handler": (_reason, { type }, when) => ({
    title: `No worker has a handler for ${short(type)}.`,
    text: `Start a worker whose jobs include this type. The next try is ${when}.`,
    icon: "workers",
    colour: "failed",
    actions: [{ kind: "workers" }],
  }),
  paused: ({ text, queue, change }, { queue: own }) => ({
    title: text,
    text: "It runs when the queue is resumed.",
    icon: "pause",
    colour: "failed",
    // The role user does not learn which queue it is.
    actions: change === null ? [] : [{ kind: "resume", queue: queue === undefined ? own : queue }, { kind: "queues" }],
  }),
  "no-worker": ({ text, change }, { type, queue }) => ({
    title: change === null ? text : `No live worker takes ${short(type)}.`,
    text:
      change === null ? "" : `Start a worker that serves queue ${short(queue)} and has a handler for ${short(type)}.`,
    icon: "workers",
    colour: "dead",
    actions: change === null ? [] : [{ kind: "workers" }],
  }),
  ahead: ({ text, change }) => ({
    title: text,
    text: change === null ? "" : "More workers, a higher concurrency or a higher priority make it start earlier.",
    icon: "queues",
    actions: change === null ? [] : [{ kind: "priority" }],
  }),
  busy: ({ text, change }) => ({
    title: text,
    text: change === null ? "" : "It starts when one of their jobs ends. More workers or a higher concurrency help.",
    icon: "workers",
    actions: change === null ? [] : [{ kind: "workers" }],
  }),
  ready: () => ({
    title: "It is due, and nothing holds it back.",
    text: "A worker claims it with its next poll.",
    icon: "check",
    colour: "completed",
  }),
};

function deadTitle({ attempt, maxAttempts, error }: WhyJob): string {
  if (attempt >= maxAttempts && attempt > 0) {
    return attempt === 1 ? "Its only attempt failed." : `All ${number(attempt)} attempts failed.`;
  }
  const why = error === null ? "" : `: ${short(error.message)}`;
  return attempt === 0
    ? `It never ran${why === "" ? "." : why}`
    : `It was given up after attempt ${attempt} of ${maxAttempts}${why}`;
}

function nameOf(worker: string | null | undefined): string {
  return worker == null ? "" : ` ${worker}`;
}

function short(message: string): string {
  const line = plain(message).split("\n", 1)[0] ?? "";
  return cut(line, 160);
}

/** What else matters before the job can run, whether it is in order or not. */
export interface Check {
  isMet: boolean;
  text: string;
}

/** Like the engine: a worker that has sent no heartbeat for so long is missing. */
const MISSING_MS = 60_000;

export function isLiveWorker({ left, seenAt }: Pick<WorkerResult, "left" | "seenAt">, now: number): boolean {
  return !left && Date.parse(seenAt) > now - MISSING_MS;
}

interface Place {
  type: string;
  queue: string;
}

/** What a job needs around it. */
export interface Around {
  queues: readonly QueueResult[];
  /** All queues are. */
  paused: boolean;
  workers: readonly WorkerResult[];
}

/** Since when a queue is paused, and by whom; null: it is not. */
export function pauseOf(
  queue: string,
  { queues, paused }: Pick<Around, "queues" | "paused">,
  now: number,
): string | null {
  if (paused) return "All queues are paused";
  const own = queues.find((each) => each.queue === queue);
  if (own?.paused !== true) return null;
  const by = own.pausedBy === null ? "" : ` by ${own.pausedBy}`;
  if (own.pausedAt === null) return `Queue ${queue} is paused${by}`;
  return `Queue ${queue} has been paused for ${coarse(now - Date.parse(own.pausedAt))}${by}`;
}

/** Whether workers and the queue would take a job of this type. */
export function checksOf({ type, queue }: Place, { queues, paused, workers }: Around, now: number): Check[] {
  const checks: Check[] = [];
  const pause = pauseOf(queue, { queues, paused }, now);
  checks.push(pause === null ? { isMet: true, text: `Queue ${queue} is not paused` } : { isMet: false, text: pause });

  const live = workers.filter((worker) => isLiveWorker(worker, now));
  const able = live.filter(
    ({ queues: served, types }) => (served === null || served.includes(queue)) && types.includes(type),
  );
  if (able.length === 0) {
    checks.push({ isMet: false, text: live.length === 0 ? "No worker is live" : `No live worker takes ${type}` });
  } else {
    const free = able.reduce((sum, { concurrency, running }) => sum + Math.max(0, concurrency - running), 0);
    const takes =
      able.length === 1 ? `1 live worker takes ${type}` : `${number(able.length)} live workers take ${type}`;
    checks.push({
      isMet: true,
      text:
        free === 0
          ? `${takes}, ${able.length === 1 ? "but is" : "but all are"} busy`
          : `${takes} and can start ${number(free)} more`,
    });
  }
  return checks;
}

/** The checks of a job that waits or could be retried. */
export function jobChecks(
  job: Pick<JobDetail, "state" | "type" | "queue" | "key">,
  reasons: readonly ReasonResult[],
  around: Around,
  now: number,
): Check[] {
  const isEnded = job.state === "dead" || job.state === "cancelled";
  const kinds = new Set<string>(reasons.map(({ kind }) => kind));
  // What the reasons say already is not said again.
  const checks = checksOf(job, around, now).filter(
    ({ isMet, text }) => isMet || !(text.startsWith("No ") ? kinds.has("no-worker") : kinds.has("paused")),
  );
  if (job.key !== null && isEnded && !kinds.has("key-held"))
    checks.push({ isMet: true, text: "Its unique key is free" });
  if (isEnded && !kinds.has("key-held") && checks.every(({ isMet }) => isMet)) {
    checks.unshift({ isMet: true, text: "If retried now, it would start at once" });
  }
  return checks;
}
