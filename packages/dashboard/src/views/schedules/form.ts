// A schedule as it is edited: every field is the text of its control.
import type { ScheduleBody, TimingBody } from "holdfast/admin";
import { localTime } from "../../app/format.js";
import { tagsOf } from "../../app/tags.js";
import { readForSending } from "../../ui/json-model.js";
import { everyText } from "./cron-words.js";
import type { LoadedSchedule } from "./load-schedule.js";

export interface Draft {
  name: string;
  job: string;
  kind: "cron" | "every";
  cron: string;
  timezone: string;
  every: string;
  input: string;
  startAt: string;
  endAt: string;
  jitter: string;
  catchUp: "skip" | "latest" | "all";
  catchUpAll: string;
  overlap: "allow" | "skip";
  queue: string;
  priority: string;
  maxAttempts: string;
  user: string;
  tags: string;
}

export type FieldErrors = Readonly<Partial<Record<keyof Draft | "form", string>>>;

export const NEW_DRAFT: Draft = {
  name: "",
  job: "",
  kind: "cron",
  cron: "0 8 * * MON-FRI",
  timezone: "UTC",
  every: "15m",
  input: "",
  startAt: "",
  endAt: "",
  jitter: "",
  catchUp: "latest",
  catchUpAll: "10",
  overlap: "allow",
  queue: "",
  priority: "",
  maxAttempts: "",
  user: "",
  tags: "",
};

export function draftOf(schedule: LoadedSchedule): Draft {
  const { catchUp } = schedule;
  return {
    name: schedule.name,
    job: schedule.type,
    kind: schedule.cron === null ? "every" : "cron",
    cron: schedule.cron ?? NEW_DRAFT.cron,
    timezone: schedule.timezone ?? NEW_DRAFT.timezone,
    every: schedule.everyMs === null ? NEW_DRAFT.every : everyText(schedule.everyMs),
    input: schedule.inputText,
    startAt: localTime(schedule.startAt),
    endAt: localTime(schedule.endAt),
    jitter: schedule.jitterMs === 0 ? "" : everyText(schedule.jitterMs),
    catchUp: typeof catchUp === "object" ? "all" : catchUp,
    catchUpAll: typeof catchUp === "object" ? String(catchUp.all) : NEW_DRAFT.catchUpAll,
    overlap: schedule.overlap,
    queue: schedule.queue,
    priority: String(schedule.priority),
    maxAttempts: String(schedule.maxAttempts),
    user: schedule.user ?? "",
    tags: schedule.tags.join(", "),
  };
}

function instantOf(text: string): string | null {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? null : new Date(ms).toISOString();
}

export function timingOf(draft: Draft): TimingBody {
  const startAt = draft.startAt === "" ? null : instantOf(draft.startAt);
  const endAt = draft.endAt === "" ? null : instantOf(draft.endAt);
  const when = draft.kind === "cron" ? { cron: draft.cron, timezone: draft.timezone } : { every: draft.every };
  return { ...when, ...(startAt !== null && { startAt }), ...(endAt !== null && { endAt }) };
}

export interface Read {
  body: ScheduleBody;
  errors: FieldErrors;
}

/** What to send: all that was given, or only what differs from `before`. Changed fields of a schedule defined in code stay changed. */
export function readDraft(draft: Draft, before: Draft | null): Read {
  const body: Record<string, unknown> = {};
  const errors: Partial<Record<keyof Draft, string>> = {};
  const isGiven = (...fields: (keyof Draft)[]): boolean =>
    fields.some((field) => draft[field] !== (before === null ? "" : before[field]));
  if (isGiven("job")) body["job"] = draft.job.trim();
  if (
    before === null ||
    isGiven("kind", ...(draft.kind === "cron" ? (["cron", "timezone"] as const) : (["every"] as const)))
  ) {
    if (draft.kind === "cron") Object.assign(body, { cron: draft.cron.trim(), timezone: draft.timezone.trim() });
    else body["every"] = draft.every.trim();
  }
  if (isGiven("input")) {
    const read = readForSending(draft.input.trim() || "null");
    if (read.error === undefined) body["input"] = read.value;
    else errors.input = read.error.message;
  }
  for (const field of ["startAt", "endAt"] as const) {
    if (!isGiven(field)) continue;
    const at = draft[field] === "" ? null : instantOf(draft[field]);
    if (at === null && draft[field] !== "") errors[field] = "This is not a time.";
    else body[field] = at;
  }
  if (isGiven("jitter")) body["jitter"] = draft.jitter.trim() === "" ? 0 : draft.jitter.trim();
  if (
    before === null
      ? draft.catchUp !== "latest"
      : isGiven("catchUp", ...(draft.catchUp === "all" ? (["catchUpAll"] as const) : []))
  ) {
    if (draft.catchUp !== "all") body["catchUp"] = draft.catchUp;
    else readNumber("catchUpAll", (all) => (body["catchUp"] = { all }));
  }
  if (before === null ? draft.overlap !== "allow" : isGiven("overlap")) body["overlap"] = draft.overlap;
  if (isGiven("queue")) body["queue"] = draft.queue.trim();
  if (isGiven("priority")) readNumber("priority", (value) => (body["priority"] = value));
  if (isGiven("maxAttempts")) readNumber("maxAttempts", (value) => (body["maxAttempts"] = value));
  if (isGiven("user")) body["user"] = draft.user.trim() === "" ? null : draft.user.trim();
  if (isGiven("tags")) body["tags"] = tagsOf(draft.tags);
  return { body, errors };

  function readNumber(field: "priority" | "maxAttempts" | "catchUpAll", write: (value: number) => void): void {
    if (/^\s*-?\d{1,15}\s*$/.test(draft[field])) write(Number(draft[field]));
    else errors[field] = "This must be a whole number.";
  }
}

const LABELS: Readonly<Partial<Record<string, string>>> = {
  name: "The name",
  job: "The job type",
  cron: "The pattern",
  every: "The interval",
  timezone: "The time zone",
  queue: "The queue",
  priority: "The priority",
  maxAttempts: "The number of attempts",
  jitter: "The jitter",
  user: "The user",
  tags: "The tags",
};

/** Issues of the server, at the fields that they are about. */
export function fieldErrors(
  issues: readonly { path: string; message: string }[],
  code: string,
  message: string,
): FieldErrors {
  const errors: Partial<Record<keyof Draft | "form", string>> = {};
  if (code === "SCHEDULE_EXISTS") return { name: "A schedule with this name exists. Choose another name." };
  for (const { path, message: text } of issues) {
    const [first = ""] = path.split(".");
    const field = first === "type" ? "job" : first === "catchUp" ? "catchUpAll" : first;
    const isField = Object.hasOwn(NEW_DRAFT, field);
    const key = isField ? (field as keyof Draft) : "form";
    errors[key] ??= asSentence(path, text, LABELS[field]);
  }
  if (Object.keys(errors).length === 0) errors.form = asSentence("", message, undefined);
  return errors;
}

function asSentence(path: string, message: string, label: string | undefined): string {
  const [first = "", ...rest] = path.split(".");
  let text = message.startsWith(`${path}: `) ? message.slice(path.length + 2) : message;
  if (text.startsWith(`${first} `) && label !== undefined) text = label + text.slice(first.length);
  if (rest.length > 0) text = `${rest.join(".")}: ${text.replace(/^Invalid input: /, "")}`;
  else if (/^(?:must|is|has|needs) /.test(text) && label !== undefined) text = `${label} ${text}`;
  const start = rest.length > 0 ? text : text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?"}]$/.test(start) ? start : `${start}.`;
}
