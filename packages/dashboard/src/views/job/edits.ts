import type { JobChanges, JobDetail } from "holdfast/admin";
import { tagsOf } from "../../app/tags.js";
import type { Issue } from "../../ui/json-editor.js";
import { readForSending } from "../../ui/json-model.js";

/** The fields of the dialog, as text. */
export interface Edited {
  /** In the viewer's time zone; empty: unchanged. */
  runAt: string;
  /** Empty: never. */
  expiresAt: string;
  priority: string;
  queue: string;
  maxAttempts: string;
  /** Separated by commas. */
  tags: string;
  input: string;
}

/** The fields that differ, and those that cannot be read. */
export function changesOf(before: Edited, after: Edited): { changes: JobChanges; issues: Issue[] } {
  const changes: JobChanges = {};
  const issues: Issue[] = [];
  const isChanged = (name: keyof Edited): boolean => before[name] !== after[name];
  if (isChanged("runAt")) {
    if (Number.isNaN(Date.parse(after.runAt))) issues.push({ path: "runAt", message: "Type a date and a time." });
    else changes.runAt = new Date(after.runAt).toISOString();
  }
  if (isChanged("expiresAt"))
    changes.expiresAt = after.expiresAt === "" ? null : new Date(after.expiresAt).toISOString();
  for (const name of ["priority", "maxAttempts"] as const) {
    if (!isChanged(name)) continue;
    if (/^-?\d{1,9}$/.test(after[name].trim())) changes[name] = Number(after[name]);
    else issues.push({ path: name, message: "Type a whole number." });
  }
  if (isChanged("queue")) changes.queue = after.queue.trim();
  if (isChanged("tags")) changes.tags = tagsOf(after.tags);
  if (isChanged("input")) {
    const read = readForSending(after.input);
    if (read.error === undefined) changes.input = read.value;
  }
  return { changes, issues };
}

/** Whether parts of a payload are not shown. As they are, they stand for what is stored now. */
export function isRedacted(text: string): boolean {
  return text.includes('"[redacted]"');
}

/** What brings the fields back that a change touches. Null: the input that was stored cannot be sent. */
export function undoOf(job: JobDetail, changes: JobChanges, inputText: string): JobChanges | null {
  const { value: input, error } = readForSending(inputText);
  if ("input" in changes && (error !== undefined || isRedacted(inputText))) return null;
  const { priority, queue, tags, maxAttempts, expiresAt, dueAt, runAt } = job;
  const before: JobChanges = {
    priority,
    queue,
    tags,
    maxAttempts,
    expiresAt,
    runAt: dueAt ?? runAt,
    input,
  };
  return Object.fromEntries(Object.entries(before).filter(([name]) => name in changes));
}
