import type { State } from "../../job/state.js";
import type { JobSummary } from "../../admin/contract/api-types.js";
import { lengthOf } from "../../duration.js";
import { paint, type Colour, type Part } from "./style.js";

export { lengthOf };

const COLOURS: Readonly<Record<State, Colour>> = {
  pending: "cyan",
  claimed: "blue",
  running: "blue",
  failed: "yellow",
  completed: "green",
  dead: "red",
  cancelled: "gray",
};

/** A state, or another string, in the colour of the state. */
export function stateOf(state: State, text: string = state): Part {
  return paint(text, COLOURS[state]);
}

/** A number with thousands separators. */
export function countOf(count: number): string {
  return count.toLocaleString("en-US");
}

/** `1 job`, `2,000 jobs`. */
export function jobs(count: number): string {
  return count === 1 ? "1 job" : `${countOf(count)} jobs`;
}

/** `2 of 4`. */
export function attemptOf({ attempt, maxAttempts }: JobSummary): string {
  return `${attempt} of ${maxAttempts}`;
}

/** A time relative to now: `3s ago`, `in 2h`. */
export function agoOf(time: string | null, now: number): Part {
  if (time === null) return paint("–", "gray");
  const ms = now - Date.parse(time);
  return ms >= 0 ? `${lengthOf(ms)} ago` : `in ${lengthOf(-ms)}`;
}

/** The time that `jobs list` shows, by state. `dueAt` of a claimed job would be the end of its lease. */
const TIMES: Readonly<Record<State, "dueAt" | "claimedAt" | "startedAt" | "finishedAt">> = {
  pending: "dueAt",
  claimed: "claimedAt",
  running: "startedAt",
  failed: "dueAt",
  completed: "finishedAt",
  dead: "finishedAt",
  cancelled: "finishedAt",
};

/** The time of a job that `jobs list` shows. */
export function timeOf(job: JobSummary, now: number): Part {
  return agoOf(job[TIMES[job.state]] ?? job.createdAt, now);
}

/** The last error of a job. Empty for a completed job, which may have failed before. */
export function errorOf({ state, error }: JobSummary): string {
  return state === "completed" ? "" : (error?.message ?? "");
}

/** A time in the local time zone, with its offset from UTC. */
export function clockOf(time: string | null): string {
  if (time === null) return "–";
  const date = new Date(time);
  const two = (value: number): string => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const ahead = -date.getTimezoneOffset();
  const [hours, minutes] = [Math.floor(Math.abs(ahead) / 60), Math.abs(ahead) % 60];
  const offset = ahead === 0 ? "Z" : `${ahead < 0 ? "-" : "+"}${two(hours)}:${two(minutes)}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}${offset}`;
}

/** A time in a time zone: `Thu 2026-01-01 08:00:00`. */
export function clockIn(time: string, zone: string): string {
  const parts = new Intl.DateTimeFormat("en-US", {
    timeZone: zone,
    weekday: "short",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
  }).formatToParts(new Date(time));
  const of = (type: Intl.DateTimeFormatPartTypes): string => parts.find((part) => part.type === type)?.value ?? "";
  return `${of("weekday")} ${of("year")}-${of("month")}-${of("day")} ${of("hour")}:${of("minute")}:${of("second")}`;
}
