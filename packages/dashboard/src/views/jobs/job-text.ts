// What a row says about a job. Pure.
import type { JobSummary, QueueResult, WorkerResult } from "holdfast/admin";
import { coarse, duration } from "../../app/format.js";

const MAX_TITLE = 2_000;
const MAX_TEXT = 300;
const HOUR = 3_600_000;
/** Jobs that no worker takes are deferred by seconds. */
const SOON = 60_000;
/** Jobs that wait for something else than a time are due in some thousand years. */
const FAR = 100 * 365 * 24 * HOUR;

/** A string on one line, without control characters and colour codes. */
export function oneLine(text: string, max = MAX_TEXT): string {
  // What follows is cut anyway.
  const start = text.slice(0, MAX_TITLE * 2);
  // oxlint-disable-next-line no-control-regex -- these are what it removes
  const plain = start.replaceAll(/\u001B\[[0-9;?]*[A-Za-z]/g, "").replaceAll(/[\u0000-\u001F\u007F]+/g, " ");
  return plain.length > max || text.length > start.length ? `${plain.slice(0, max).trimEnd()}…` : plain.trim();
}

/** For titles: longer, but not a hundred kilobytes. */
export function titleOf(text: string): string {
  return text.length > MAX_TITLE ? `${text.slice(0, MAX_TITLE)}…` : text;
}

function ago(from: string | null, now: number): string {
  return from === null ? "" : `${coarse(Math.max(1_000, now - Date.parse(from)))} ago`;
}

/** "due in 12 m 52 s", "started 4 s ago", "took 184 ms", "died 6 m ago". */
export function timing(job: JobSummary, now: number): string {
  const due = job.dueAt === null ? null : Date.parse(job.dueAt);
  switch (job.state) {
    case "pending":
    case "failed": {
      if (due === null || due - now > FAR) return "waits";
      const retry = job.state === "failed";
      if (due <= now) return `${retry ? "retry due" : "due"} ${due > now - 1_000 ? "now" : `${coarse(now - due)} ago`}`;
      const left = due - now < HOUR ? duration(Math.max(1_000, due - now)) : coarse(due - now);
      return `${retry ? "retries" : "due"} in ${left.replace(/\.\d/, "")}`;
    }
    case "claimed":
    case "running":
      if (due !== null && due < now - 1_000) return `lease expired ${coarse(now - due)} ago`;
      if (job.cancelRequestedAt !== null) return "asked to stop";
      return job.state === "claimed" ? `claimed ${ago(job.claimedAt, now)}` : `started ${ago(job.startedAt, now)}`;
    case "completed":
      if (job.finishedAt === null) return "";
      if (job.startedAt === null) return `finished ${ago(job.finishedAt, now)}`;
      return `took ${duration(Date.parse(job.finishedAt) - Date.parse(job.startedAt))}`;
    case "dead":
      return `died ${ago(job.finishedAt, now)}`;
    case "cancelled":
      return `cancelled ${ago(job.finishedAt, now)}`;
  }
}

/** What keeps due jobs from running. */
export interface Obstacles {
  isAllPaused: boolean;
  paused: ReadonlySet<string>;
  /** Undefined: not known. */
  workers: readonly Pick<WorkerResult, "types" | "queues" | "left">[] | undefined;
}

export function obstaclesOf(
  queues: { queues: readonly QueueResult[]; paused: boolean } | undefined,
  workers: readonly WorkerResult[] | undefined,
): Obstacles {
  return {
    isAllPaused: queues?.paused === true,
    paused: new Set(queues?.queues.filter(({ paused }) => paused).map(({ queue }) => queue)),
    workers: workers?.filter(({ left }) => !left),
  };
}

export interface Note {
  text: string;
  title: string;
  /** Someone should look at it. */
  kind: "plain" | "warn" | "bad";
}

/** The error of a job, its progress, or what keeps it from running. */
export function noteOf(job: JobSummary, obstacles: Obstacles, now: number): Note | null {
  const { state, progress, error } = job;
  if (state === "running" && progress !== null) {
    const percent = `${Math.round(progress.fraction * 100)}%`;
    const text = progress.note === null ? percent : `${percent} · ${oneLine(progress.note)}`;
    return { text, title: titleOf(progress.note ?? percent), kind: "plain" };
  }
  if (state === "pending" && job.dueAt !== null && Date.parse(job.dueAt) <= now + SOON) {
    const text = obstacleOf(job, obstacles);
    if (text !== null) return { text, title: text, kind: "warn" };
  }
  if (error === null || state === "completed") return null;
  const kind = state === "dead" ? "bad" : state === "failed" ? "warn" : "plain";
  return { text: oneLine(error.message), title: titleOf(error.message), kind };
}

function obstacleOf({ queue, type }: JobSummary, { isAllPaused, paused, workers }: Obstacles): string | null {
  if (isAllPaused) return "All queues are paused";
  if (paused.has(queue)) return "Queue is paused";
  if (workers === undefined) return null;
  const takers = workers.filter(({ types }) => types.includes(type));
  if (takers.length === 0) return "No worker takes this type";
  const isServed = takers.some(({ queues }) => queues === null || queues.includes(queue));
  return isServed ? null : "No worker takes this queue";
}
