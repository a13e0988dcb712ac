import { LIMITS } from "../../../defaults.js";
import { jsonBytes } from "../../../job/json.js";
import type { AttemptRecord, StoredJob } from "../../../store.js";
import { itemOf, numberOf, stringOf, type Item } from "../connection/attributes.js";
import { inputMapKey, type JobItem } from "./items.js";
import { DETAILS, jobKey, OPEN_CHILDREN, STEPS, waiterKey, type Key } from "./item-keys.js";
import { Change } from "../connection/expressions.js";
import { isWaitingStep } from "../steps/step-items.js";
import { eventOf } from "../steps/topics.js";
import type { RetryLimit, Table } from "../connection/table.js";

/** The `nth` entry of a job's attempt history. The newest entries overwrite the oldest. */
export function attemptItem(id: string, nth: number, record: AttemptRecord): Item {
  const { pk } = jobKey(id);
  return itemOf({ pk, sk: `${DETAILS.attempt}${nth % LIMITS.attempts}`, nth, record: JSON.stringify(record) });
}

export type LogLines = StoredJob["log"];

// One item may contain all lines that are kept, so it may be overwritten only after as many more lines.
const LOG_KEYS = 2 * LIMITS.logLines;
// The maximum size of the log lines in one item, as JSON.
const MAX_LINES_BYTES = 300 * 1024;

/**
 * Items for new log lines, after `before` earlier ones. Uses as many items as needed. Lines beyond the limit are later
 * overwritten.
 */
export function logItems(id: string, before: number, lines: LogLines): Item[] {
  const { pk } = jobKey(id);
  const first = Math.max(0, lines.length - LIMITS.logLines);
  const parts: { nth: number; lines: LogLines[number][] }[] = [];
  let left = 0;
  for (const [at, line] of lines.entries()) {
    if (at < first) continue;
    const kept = truncate(line);
    left -= jsonBytes(JSON.stringify(kept)) + 1;
    if (left < 0) {
      parts.push({ nth: before + at, lines: [] });
      left = MAX_LINES_BYTES - jsonBytes(JSON.stringify(kept)) - 1;
    }
    parts.at(-1)?.lines.push(kept);
  }
  return parts.map(({ nth, lines: part }) =>
    itemOf({ pk, sk: `${DETAILS.log}${nth % LOG_KEYS}`, nth, lines: JSON.stringify(part) }),
  );
}

/** Truncates a line that is too long for an item. A character takes at most six bytes of JSON. */
function truncate(line: LogLines[number]): LogLines[number] {
  const maxChars = MAX_LINES_BYTES / 6 - 100;
  return line.line.length <= maxChars ? line : { ...line, line: `${line.line.slice(0, maxChars - 1).toWellFormed()}…` };
}

export interface WholeJob {
  job: Item;
  inputs: Map<string, string>;
  attempts: AttemptRecord[];
  log: { at: number; line: string }[];
}

/** A job with its input, history and log. */
export async function wholeJob(table: Table, id: string): Promise<WholeJob | null> {
  // Its steps sort after these items, and are not read.
  const items = await table.all({ hash: jobKey(id).pk, below: STEPS, consistent: true });
  const withPrefix = (prefix: string): Item[] =>
    items
      .filter((item) => stringOf(item, "sk")?.startsWith(prefix) === true)
      .toSorted((a, b) => (numberOf(a, "nth") ?? 0) - (numberOf(b, "nth") ?? 0));
  const job = items.find((item) => stringOf(item, "sk") === "job");
  if (job === undefined) return null;
  const read = <Value>(item: Item, name: string): Value => JSON.parse(stringOf(item, name) ?? "null") as Value;
  return {
    job,
    inputs: new Map(withPrefix(DETAILS.input).map(inputEntry)),
    attempts: withPrefix(DETAILS.attempt).map((item) => read<AttemptRecord>(item, "record")),
    log: withPrefix(DETAILS.log)
      .flatMap((item) => read<{ at: number; line: string }[]>(item, "lines"))
      .slice(-LIMITS.logLines),
  };
}

function inputEntry(item: Item): [string, string] {
  return [inputMapKey(stringOf(item, "pk") ?? "", stringOf(item, "sk") ?? ""), stringOf(item, "input") ?? ""];
}

/** The inputs of those jobs that have them in separate items. */
export async function inputsOf(
  table: Table,
  jobs: readonly Item[],
  retryLimit: RetryLimit = {},
): Promise<Map<string, string>> {
  const keys = jobs.flatMap((job): Key[] => {
    const at = stringOf(job, "input_at");
    return at === null ? [] : [{ pk: stringOf(job, "pk") ?? "", sk: at }];
  });
  return new Map(keys.length === 0 ? [] : (await table.getAll(keys, retryLimit)).map(inputEntry));
}

/**
 * Deletes the other items of a job. Not inputs of other enqueues: a job with the same id may be about to be written,
 * and its input is written first. Nor steps of such a job.
 */
export async function deleteDetails(table: Table, { id, inputKey, listed }: JobItem, now: number): Promise<void> {
  const { pk, sk: own } = jobKey(id);
  const items = await table.all({ hash: pk, consistent: true });
  const found = items.filter((item) => {
    const sk = stringOf(item, "sk") ?? "";
    if (isOfStep(sk)) return stringOf(item, "listed") === listed;
    return sk !== own && (!sk.startsWith(DETAILS.input) || sk === inputKey || isAbandoned(item, now));
  });
  await Promise.all(
    found.map(async (item) => {
      const sk = stringOf(item, "sk") ?? "";
      if (!isOfStep(sk)) return table.delete({ pk, sk });
      await deleteWaiter(table, id, item);
      const change = new Change();
      return table.delete({ pk, sk }, change.when(`#listed = ${change.value(listed)}`));
    }),
  );
}

/** A step that waits for an event is also in the partition of the event. */
async function deleteWaiter(table: Table, id: string, step: Item): Promise<void> {
  const event = isWaitingStep(step) ? eventOf(stringOf(step, "topic")) : null;
  if (event === null) return;
  const change = new Change();
  const when = change.when(`#listed = ${change.value(stringOf(step, "listed") ?? "")}`);
  await table.delete(waiterKey(event, id, stringOf(step, "name") ?? "", numberOf(step, "member") ?? 0), when);
}

function isOfStep(sk: string): boolean {
  return sk.startsWith(STEPS) || sk.startsWith(OPEN_CHILDREN);
}

// An item that another one will refer to is written at most seconds before that one.
const ABANDONED_MS = 3_600_000;

/** Whether an item without a reference was left behind by a write that never finished. */
export function isAbandoned(item: Item, now: number): boolean {
  return (numberOf(item, "at") ?? 0) < now - ABANDONED_MS;
}
