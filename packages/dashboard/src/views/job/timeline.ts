import type { JobDetail } from "holdfast/admin";

/** A stretch of a job's life. `delay`: not due yet. `back`: waited after an attempt. `unknown`: attempts no longer kept. */
export type SpanKind = "delay" | "wait" | "run" | "back" | "lost" | "unknown";
export interface Span {
  kind: SpanKind;
  from: number;
  to: number;
}

/** A transition, derived from the times of the record. */
export interface Transition {
  at: number;
  kind:
    | "enqueued"
    | "claimed"
    | "running"
    | "failed"
    | "expired"
    | "released"
    | "cancelled"
    | "completed"
    | "dead"
    | "cancel-requested"
    | "unknown"
    | "due";
  attempt?: number;
  worker?: string | null;
  fence?: number | null;
  error?: string | null;
  /** How long it waited before, ran, or will wait. */
  ms?: number;
  /** Attempts that are no longer kept. */
  count?: number;
}

export interface Timeline {
  spans: Span[];
  transitions: Transition[];
  from: number;
  /** The end of the job, or now. */
  to: number;
  /** Sums by kind. */
  total: Record<SpanKind, number>;
}

type TimedJob = Pick<
  JobDetail,
  | "state"
  | "createdAt"
  | "runAt"
  | "dueAt"
  | "claimedAt"
  | "startedAt"
  | "finishedAt"
  | "cancelRequestedAt"
  | "worker"
  | "attempt"
  | "attempts"
  | "fence"
  | "error"
>;

const ms = (time: string): number => Date.parse(time);

/** What happened to a job and how long each part took. Times of different machines may overlap: no span is shorter than 0. */
export function timelineOf(job: TimedJob, now: number): Timeline {
  const from = ms(job.createdAt);
  const finished = job.finishedAt === null ? null : ms(job.finishedAt);
  const to = Math.max(from, finished ?? now);
  const spans: Span[] = [];
  const transitions: Transition[] = [{ at: from, kind: "enqueued" }];
  let at = from;
  // A retry overwrites the time that the job was due at first.
  const firstClaim = job.attempts[0]?.claimedAt ?? job.claimedAt;
  const firstDue = firstClaim !== null && job.runAt > firstClaim ? from : ms(job.runAt);
  const advance = (kind: SpanKind, until: number): void => {
    const end = Math.min(Math.max(until, at), to);
    if (end > at) spans.push({ kind, from: at, to: end });
    at = Math.max(at, end);
  };
  const waitUntil = (until: number): void => {
    if (spans.some(({ kind }) => kind !== "delay" && kind !== "wait")) return advance("back", until);
    advance("delay", Math.min(firstDue, until));
    advance("wait", until);
  };
  const claim = (
    { attempt, worker, fence }: { attempt: number; worker: string | null; fence?: number | null },
    claimedAt: number,
    startedAt: number | null,
  ): void => {
    const waited = { ms: Math.max(0, claimedAt - Math.max(at, firstDue)) };
    waitUntil(claimedAt);
    if (startedAt === null || startedAt - claimedAt > 1_000) {
      transitions.push({ at: claimedAt, kind: "claimed", worker, fence: fence ?? null, ...waited });
      if (startedAt !== null) transitions.push({ at: startedAt, kind: "running", attempt });
    } else {
      transitions.push({ at: startedAt, kind: "running", attempt, worker, fence: fence ?? null, ...waited });
    }
  };

  const [first] = job.attempts;
  if (first !== undefined && first.attempt > 1) {
    const start = ms(first.claimedAt ?? first.startedAt ?? first.endedAt);
    transitions.push({ at: start, kind: "unknown", count: first.attempt - 1 });
    advance("unknown", start);
  }
  for (const attempt of job.attempts) {
    const startedAt = attempt.startedAt === null ? null : ms(attempt.startedAt);
    const claimedAt = attempt.claimedAt === null ? startedAt : ms(attempt.claimedAt);
    const endedAt = ms(attempt.endedAt);
    if (claimedAt !== null) claim(attempt, claimedAt, startedAt);
    const began = at;
    advance(attempt.end === "expired" ? "lost" : "run", endedAt);
    const error = attempt.error?.message ?? null;
    transitions.push({ at: endedAt, kind: attempt.end, attempt: attempt.attempt, error, ms: Math.max(0, at - began) });
  }

  if (job.cancelRequestedAt !== null && job.state !== "cancelled") {
    transitions.push({ at: ms(job.cancelRequestedAt), kind: "cancel-requested" });
  }
  if (job.state === "claimed" || job.state === "running") {
    const claimedAt = ms(job.claimedAt ?? job.startedAt ?? job.createdAt);
    claim(job, claimedAt, job.state === "running" ? ms(job.startedAt ?? job.claimedAt ?? job.createdAt) : null);
    advance("run", to);
  } else if (finished !== null) {
    // The store needs some milliseconds to write the end of the last attempt.
    if (!endsWithAttempt(job, finished, transitions)) waitUntil(finished);
    endAt(job, finished, transitions);
  } else {
    waitUntil(to);
    const due = job.dueAt === null ? null : ms(job.dueAt);
    if (due !== null && due > now) transitions.push({ at: due, kind: "due", ms: due - now });
  }
  transitions.sort((a, b) => a.at - b.at);
  const total = { delay: 0, wait: 0, run: 0, back: 0, lost: 0, unknown: 0 };
  for (const span of spans) total[span.kind] += span.to - span.from;
  return { spans, transitions, from, to, total };
}

/** Whether the last attempt and the end of the job are one transition: they have one time. */
function endsWithAttempt({ state }: TimedJob, at: number, transitions: readonly Transition[]): boolean {
  const last = transitions.at(-1);
  if (last?.attempt === undefined || last.kind === "running" || at - last.at >= 1_000) return false;
  return state !== "dead" || last.kind === "failed" || last.kind === "expired";
}

/** Adds the end of the job, or makes the end of its last attempt that. */
function endAt(job: TimedJob, at: number, transitions: Transition[]): void {
  const kind = job.state as "completed" | "dead" | "cancelled";
  const last = transitions.at(-1);
  if (last !== undefined && endsWithAttempt(job, at, transitions)) {
    transitions.splice(-1, 1, { ...last, kind, error: last.error ?? job.error?.message ?? null });
  } else {
    transitions.push({ at, kind, error: job.error?.message ?? null });
  }
}

/** The widths of the parts, to scale, but each at least `min`. */
export function widthsOf(lengths: readonly number[], width: number, min: number): number[] {
  const sum = lengths.reduce((total, length) => total + length, 0);
  if (sum === 0) return lengths.map(() => width / lengths.length);
  const isSmall = lengths.map((length) => (length / sum) * width < min);
  const small = isSmall.filter(Boolean).length;
  const largeSum = lengths.reduce((total, length, at) => total + (isSmall[at] === true ? 0 : length), 0);
  const left = Math.max(0, width - small * min);
  const widths = lengths.map((length, at) =>
    isSmall[at] === true || largeSum === 0 ? min : (length / largeSum) * left,
  );
  // With very many parts, there is not enough width for the smallest ones.
  const used = widths.reduce((total, each) => total + each, 0);
  return used > width ? widths.map((each) => (each / used) * width) : widths;
}
