// What is wrong, and what to do. Pure functions of what the Overview has loaded.
import type { ErrorGroupResult, QueueResult, ScheduleSummary, StatsResult, WorkerResult } from "holdfast/admin";
import { clock, coarse, number, plural } from "../../app/format.js";
import { isLive, takes } from "../../app/workers.js";
import type { IconName } from "../../ui/icon.js";

/** Our words; a name, which is shown as code; or the words of others, which may have another direction. */
export type Piece = string | { name: string } | { quoted: string };

export interface Warning {
  key: string;
  /** The state whose colour it has. */
  level: "dead" | "failed";
  icon: IconName;
  /** What is wrong. */
  title: Piece[];
  /** How bad it is. */
  detail: Piece[];
  /** What to do. */
  advice: Piece[];
  /** A filter of the list of jobs. */
  jobs?: Readonly<Record<string, string>>;
  /** The group of errors that it is about. */
  fingerprint?: string;
  /** The queue to resume; null: all of them. */
  resume?: string | null;
  /** A view with more about it. */
  view?: "workers" | "schedules";
}

export interface Situation {
  now: number;
  stats: StatsResult;
  /** Undefined: not loaded. */
  workers: readonly WorkerResult[] | undefined;
  queues: readonly QueueResult[] | undefined;
  groups: readonly ErrorGroupResult[] | undefined;
  /** How many jobs are dead with an error, by fingerprint, and whether there may be more. */
  dead: ReadonlyMap<string, { count: number; exact: boolean }>;
  schedules: readonly ScheduleSummary[] | undefined;
  /** For how long the oldest job of each queue was due some minutes ago. */
  before: ReadonlyMap<string, number>;
}

/** While a deployment replaces workers, jobs may be due for this long. */
const UNTAKEN_MS = 30_000;
const PAUSED_MS = 15 * 60_000;
const BEHIND_MS = 5 * 60_000;
const LATE_MS = 2 * 60_000;
const RECENT_MS = 24 * 3_600_000;
/** Jobs that are dead with one error. */
export const MANY_DEAD = 10;
/** Names in a sentence. */
const MAX_NAMES = 3;
/** Where the server counts the names beyond the 200 with the most jobs. */
const OTHERS = "other";

/** No heartbeat, although it was not stopped, and no other worker has replaced it. */
export function missingWorkers(workers: readonly WorkerResult[], now: number): WorkerResult[] {
  return workers.filter((one) => {
    if (one.left || isLive(one, now)) return false;
    return !workers.some((other) => isReplacement(other, one, now));
  });
}

/** After a crash, a worker starts again with another id. */
function isReplacement(other: WorkerResult, one: WorkerResult, now: number): boolean {
  return (
    isLive(other, now) &&
    other.host === one.host &&
    other.startedAt > one.seenAt &&
    takesAll(other.queues, one.queues) &&
    one.types.every((type) => other.types.includes(type))
  );
}

function takesAll(some: readonly string[] | null, wanted: readonly string[] | null): boolean {
  return some === null || (wanted !== null && wanted.every((queue) => some.includes(queue)));
}

export function findWarnings(situation: Situation): Warning[] {
  const untaken = untakenTypes(situation);
  return [
    ...allPaused(situation),
    ...noWorker(situation, untaken),
    ...deadWithOneError(situation),
    ...missing(situation, untaken),
    ...behind(situation, untaken),
    ...pausedForLong(situation),
    ...lateSchedules(situation),
  ];
}

interface Untaken {
  type: string;
  queues: string[];
  count: number;
  /** For how long its oldest job has been due; null if that may be a job of another type. */
  dueMs: number | null;
  /** The missing worker that handled it. */
  handledBy: WorkerResult | null;
}

/** Types with jobs in queues with due jobs, and no live worker for both. */
function untakenTypes({ now, stats, workers, queues }: Situation): Untaken[] {
  if (workers === undefined || stats.paused) return [];
  const live = workers.filter((worker) => isLive(worker, now));
  const gone = missingWorkers(workers, now);
  const paused = new Set((queues ?? []).filter((queue) => queue.paused).map(({ queue }) => queue));
  const due = new Map(stats.oldestDue.map(({ queue, dueMs }) => [queue, dueMs]));
  const found = new Map<string, Untaken>();
  for (const { queue, type, count } of stats.counts.filter(isWaiting)) {
    const dueMs = due.get(queue) ?? 0;
    if (dueMs < UNTAKEN_MS || paused.has(queue) || type === OTHERS || queue === OTHERS) continue;
    if (live.some((worker) => takes(worker, queue) && worker.types.includes(type))) continue;
    const isAlone = !stats.counts.some((other) => isWaiting(other) && other.queue === queue && other.type !== type);
    const known = found.get(type);
    found.set(type, {
      type,
      queues: [...new Set([...(known?.queues ?? []), queue])],
      count: (known?.count ?? 0) + count,
      dueMs: isAlone && known?.dueMs !== null ? Math.max(dueMs, known?.dueMs ?? 0) : null,
      handledBy: known?.handledBy ?? gone.find((worker) => takes(worker, queue) && worker.types.includes(type)) ?? null,
    });
  }
  return [...found.values()].toSorted((one, other) => other.count - one.count);
}

function isWaiting({ state }: { state: string }): boolean {
  return state === "pending" || state === "failed";
}

function noWorker({ now, stats, workers = [] }: Situation, untaken: readonly Untaken[]): Warning[] {
  const common = { level: "dead", icon: "dead" } as const;
  if (untaken.length === 0) return [];
  const total = untaken.reduce((sum, { count }) => sum + count, 0);
  if (!workers.some((worker) => isLive(worker, now))) {
    const gone = missingWorkers(workers, now).toSorted((one, other) => (one.seenAt < other.seenAt ? 1 : -1))[0];
    return [
      {
        ...common,
        key: "no-worker",
        title: ["No live worker."],
        detail: [`${waits(total)}${oldest(stats.oldestDueMs)}.`],
        advice: gone === undefined ? ["Start one."] : again(gone),
        jobs: { state: "pending,failed" },
      },
    ];
  }
  if (untaken.length > MAX_NAMES) {
    return [
      {
        ...common,
        key: "no-worker",
        title: [`No worker takes ${untaken.length} types: `, ...names(untaken.map(({ type }) => type)), "."],
        detail: [`${waits(total)}.`],
        advice: ["Start a worker that handles them."],
        jobs: { state: "pending,failed" },
      },
    ];
  }
  return untaken.map(({ type, count, dueMs, handledBy }) => ({
    ...common,
    key: `no-worker ${type}`,
    title: ["No worker takes ", { name: type }, "."],
    detail: [`${waits(count)}${oldest(dueMs)}.`],
    advice:
      handledBy === null
        ? ["Start a worker that handles it. If the name is a mistake, cancel the jobs."]
        : again(handledBy),
    jobs: { state: "pending,failed", type },
  }));
}

function again({ id, seenAt }: WorkerResult): Piece[] {
  return ["Start ", { name: id }, ` again: its last heartbeat was at ${clock(Date.parse(seenAt))}.`];
}

function waits(count: number): string {
  return `${plural(count, "job")} ${count === 1 ? "waits" : "wait"}`;
}

function oldest(dueMs: number | null): string {
  return dueMs === null ? "" : `, the oldest for ${coarse(dueMs)}`;
}

/** "a", "b", "c" and 2 more. */
function names(all: readonly string[]): Piece[] {
  const shown = all.slice(0, MAX_NAMES).flatMap((name, at): Piece[] => [...(at > 0 ? [", "] : []), { name }]);
  return all.length > MAX_NAMES ? [...shown, ` and ${all.length - MAX_NAMES} more`] : shown;
}

function deadWithOneError({ now, groups = [], dead }: Situation): Warning[] {
  return groups.flatMap(({ fingerprint, type, name, example, lastAt }): Warning[] => {
    const found = dead.get(fingerprint);
    const ageMs = now - Date.parse(lastAt);
    if (found === undefined || found.count < MANY_DEAD || ageMs > RECENT_MS) return [];
    const count = `${found.exact ? "" : "More than "}${number(found.count)} `;
    return [
      {
        key: `errors ${fingerprint}`,
        level: "dead",
        icon: "dead",
        title: [...(type === null ? [count] : [count, { name: type }, " "]), "jobs are dead with one error:"],
        detail: [{ quoted: cut(`${name === null ? "" : `${name}: `}${example}`, 100) }, "."],
        advice:
          ageMs < 60_000
            ? ["It still occurs. Find the cause first."]
            : [`It last occurred ${coarse(ageMs)} ago. When its cause is gone, retry them.`],
        fingerprint,
      },
    ];
  });
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length)}…`;
}

function missing({ now, workers = [] }: Situation, untaken: readonly Untaken[]): Warning[] {
  // The advice about its jobs names it already.
  const named = new Set(untaken.map(({ handledBy }) => handledBy?.id));
  const isNamedAnyway = untaken.length > 0 && !workers.some((worker) => isLive(worker, now));
  const gone = isNamedAnyway ? [] : missingWorkers(workers, now).filter(({ id }) => !named.has(id));
  const common = { key: "missing", level: "failed", icon: "workers", view: "workers" } as const;
  const advice = ["Its jobs run on other workers when their leases expire. See why it stopped, and start it again."];
  const [first] = gone;
  if (first === undefined) return [];
  if (gone.length === 1) {
    const at = clock(Date.parse(first.seenAt));
    return [
      { ...common, title: [{ name: first.id }, " is missing."], detail: [`Its last heartbeat was at ${at}.`], advice },
    ];
  }
  const title = [`${gone.length} workers are missing: `, ...names(gone.map(({ id }) => id)), "."];
  return [{ ...common, title, detail: [], advice: ["See why they stopped, and start them again."] }];
}

/** Queues whose jobs are due for long, and for longer than before. */
function behind({ now, stats, workers = [], before }: Situation, untaken: readonly Untaken[]): Warning[] {
  const explained = new Set(untaken.flatMap(({ queues }) => queues));
  return stats.oldestDue
    .filter(({ queue, dueMs }) => dueMs >= BEHIND_MS && dueMs > (before.get(queue) ?? 0) && !explained.has(queue))
    .slice(0, MAX_NAMES)
    .map(({ queue, dueMs }): Warning => {
      const takers = workers.filter((worker) => isLive(worker, now) && takes(worker, queue));
      const isFull = takers.every(({ running, concurrency }) => running >= concurrency);
      const counts = stats.queues[queue];
      return {
        key: `behind ${queue}`,
        level: "failed",
        icon: "clock",
        title: ["Queue ", { name: queue }, ` falls behind: its oldest job has been due for ${coarse(dueMs)}.`],
        detail: counts === undefined ? [] : [`${waits(counts.pending + counts.failed)}.`],
        advice: [
          isFull
            ? "Its workers have no free capacity: start more, or raise their concurrency."
            : "Its workers have free capacity: open a job to see why it waits.",
        ],
        jobs: { state: "pending,failed", queue },
      };
    });
}

function allPaused({ stats }: Situation): Warning[] {
  const count = stats.states.pending + stats.states.failed;
  if (!stats.paused || count === 0) return [];
  return [
    {
      key: "all-paused",
      level: "failed",
      icon: "pause",
      title: ["All queues are paused."],
      detail: [`${waits(count)}.`],
      advice: [],
      resume: null,
    },
  ];
}

function pausedForLong({ now, stats, queues = [] }: Situation): Warning[] {
  return queues.flatMap(({ queue, paused, pausedAt, pausedBy }): Warning[] => {
    const counts = stats.queues[queue];
    const count = counts === undefined ? 0 : counts.pending + counts.failed;
    const forMs = pausedAt === null ? null : now - Date.parse(pausedAt);
    if (!paused || count === 0 || (forMs ?? PAUSED_MS) < PAUSED_MS) return [];
    const since = forMs === null ? " is paused" : ` has been paused for ${coarse(forMs)}`;
    return [
      {
        key: `paused ${queue}`,
        level: "failed",
        icon: "pause",
        title: ["Queue ", { name: queue }, since, ...(pausedBy === null ? ["."] : [" by ", { name: pausedBy }, "."])],
        detail: [`${waits(count)}.`],
        advice: [],
        resume: queue,
      },
    ];
  });
}

function lateSchedules({ now, schedules = [] }: Situation): Warning[] {
  const late = schedules.filter(
    ({ enabled, nextRunAt }) => enabled && nextRunAt !== null && now - Date.parse(nextRunAt) > LATE_MS,
  );
  if (late.length === 0) return [];
  const isOne = late.length === 1;
  return [
    {
      key: "late",
      level: "failed",
      icon: "schedules",
      title: [
        isOne ? "Schedule " : `${late.length} schedules are late: `,
        ...names(late.map(({ name }) => name)),
        isOne ? " is late." : ".",
      ],
      detail: isOne ? [`It was due at ${clock(Date.parse(late[0]?.nextRunAt ?? ""))}.`] : [],
      advice: ["Processes with a worker fire schedules: see whether one runs."],
      view: "schedules",
    },
  ];
}
