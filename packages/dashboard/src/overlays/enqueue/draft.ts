import type { NewJobBody } from "holdfast/admin";
import { tagsOf } from "../../app/tags.js";
import type { Issue } from "../../ui/json-editor.js";
import { readForSending } from "../../ui/json-model.js";

/** The fields of the dialog, as text. */
export interface Draft {
  type: string;
  /** JSON; empty: `{}`. */
  input: string;
  /** The type that the input was typed for. */
  inputOf: string;
  queue: string;
  priority: string;
  user: string;
  /** Separated by commas. */
  tags: string;
  when: "now" | "after" | "at";
  /** A duration, such as `10m`. */
  delay: string;
  /** In the viewer's time zone. */
  runAt: string;
  key: string;
  scope: "live" | "waiting" | "forever" | "period" | "hour" | "day" | "week" | "month";
  /** For the scope `period`: a duration. */
  period: string;
  onConflict: "keep" | "replace" | "reject";
  maxAttempts: string;
}

export const EMPTY: Draft = {
  type: "",
  input: "{}",
  inputOf: "",
  queue: "",
  priority: "",
  user: "",
  tags: "",
  when: "now",
  delay: "",
  runAt: "",
  key: "",
  scope: "live",
  period: "",
  onConflict: "keep",
  maxAttempts: "",
};

export const SCOPES: readonly (readonly [Draft["scope"], string])[] = [
  ["live", "while the job is not finished"],
  ["waiting", "while the job waits"],
  ["forever", "forever"],
  ["period", "for a period…"],
  ["hour", "once per hour"],
  ["day", "once per day"],
  ["week", "once per week"],
  ["month", "once per month"],
];

const CALENDAR: readonly string[] = ["hour", "day", "week", "month"];

/** The request of a draft, and what cannot be read. Empty fields are left out: the type's defaults apply. */
export function requestOf(draft: Draft): { body: NewJobBody; issues: Issue[] } {
  const issues: Issue[] = [];
  const body: NewJobBody = { type: draft.type.trim() };
  if (body.type === "") issues.push({ path: "type", message: "Type the name of a job type." });
  if (draft.input.trim() !== "") {
    const read = readForSending(draft.input);
    if (read.error === undefined) body.input = read.value;
    else
      issues.push({
        path: "input",
        message: `Line ${read.error.line}, column ${read.error.column}: ${read.error.message}`,
      });
  }
  if (draft.queue.trim() !== "") body.queue = draft.queue.trim();
  if (draft.user.trim() !== "") body.user = draft.user.trim();
  const tags = tagsOf(draft.tags);
  if (tags.length > 0) body.tags = tags;
  for (const name of ["priority", "maxAttempts"] as const) {
    const text = draft[name].trim();
    if (text === "") continue;
    if (/^-?\d{1,9}$/.test(text)) body[name] = Number(text);
    else issues.push({ path: name, message: "Type a whole number." });
  }
  if (draft.when === "after") {
    if (draft.delay.trim() === "") issues.push({ path: "delay", message: "Type a duration, such as 10m or 2h." });
    else body.delay = draft.delay.trim();
  }
  if (draft.when === "at") {
    if (Number.isNaN(Date.parse(draft.runAt))) issues.push({ path: "runAt", message: "Type a date and a time." });
    else body.runAt = new Date(draft.runAt).toISOString();
  }
  if (draft.key.trim() !== "") {
    if (draft.scope === "period" && draft.period.trim() === "") {
      issues.push({ path: "unique.scope", message: "Type a duration, such as 1h." });
    }
    body.unique = { key: draft.key.trim(), scope: scopeOf(draft), onConflict: draft.onConflict };
  }
  return { body, issues };
}

function scopeOf({ scope, period }: Draft): NonNullable<Exclude<NewJobBody["unique"], string | undefined>["scope"]> {
  if (scope === "period") return { period: period.trim() };
  if (CALENDAR.includes(scope)) return { calendar: scope as "hour" | "day" | "week" | "month" };
  return scope as "live" | "waiting" | "forever";
}

/** A draft of an earlier visit. What is not a draft is ignored. */
export function readDraft(text: string | null): Draft {
  try {
    const given: unknown = JSON.parse(text ?? "{}");
    const known = Object.entries(given as object).filter(([name, value]) => name in EMPTY && typeof value === "string");
    return { ...EMPTY, ...(Object.fromEntries(known) as Partial<Draft>) };
  } catch {
    return EMPTY;
  }
}
