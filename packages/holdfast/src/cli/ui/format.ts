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

/** A state, or what is said of it, in the state's colour. */
export function stateOf(state: State, text: string = state): Part {
  return paint(text, COLOURS[state]);
}

/** A number as people read it. */
export function countOf(count: number): string {
  return count.toLocaleString("en-US");
}

/** `1 job`, `2,000 jobs`. */
export function jobs(count: number): string {
  return count === 1 ? "1 job" : `${countOf(count)} jobs`;
}

/** A time by how far it is from now, and itself where that says little. */
export function agoOf(time: string | null, now: number): Part {
  if (time === null) return paint("–", "gray");
  const ms = now - Date.parse(time);
  return ms >= 0 ? `${lengthOf(ms)} ago` : `in ${lengthOf(-ms)}`;
}

/** Which time of a job is of interest, by its state. That a claimed job is due means that its lease ends. */
const TIMES: Readonly<Record<State, "dueAt" | "claimedAt" | "startedAt" | "finishedAt">> = {
  pending: "dueAt",
  claimed: "claimedAt",
  running: "startedAt",
  failed: "dueAt",
  completed: "finishedAt",
  dead: "finishedAt",
  cancelled: "finishedAt",
};

/** When a job is or was of interest, by its state. */
export function timeOf(job: JobSummary, now: number): Part {
  return agoOf(job[TIMES[job.state]] ?? job.createdAt, now);
}

/** Why a job is not well. One that got through in the end is. */
export function errorOf({ state, error }: JobSummary): string {
  return state === "completed" ? "" : (error?.message ?? "");
}

/** A time as it is, by the clock of whoever reads it, with how that differs from UTC. */
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

/** The same by the clocks of a zone: `Thu 2026-01-01 08:00:00`. */
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
