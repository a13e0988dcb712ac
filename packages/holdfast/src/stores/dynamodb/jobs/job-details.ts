import { LIMITS } from "../../../defaults.js";
import { jsonBytes } from "../../../job/json.js";
import type { AttemptRecord, StoredJob } from "../../../store.js";
import { itemOf, numberOf, textOf, type Item } from "../connection/attributes.js";
import { inputName, type JobItem } from "./items.js";
import { BESIDE, jobKey, type Key } from "./keys.js";
import type { Patience, Table } from "../connection/table.js";

/** An entry of a job's history, the `nth` of all. The newest take the places of the oldest. */
export function attemptItem(id: string, nth: number, record: AttemptRecord): Item {
  const { pk } = jobKey(id);
  return itemOf({ pk, sk: `${BESIDE.attempt}${nth % LIMITS.attempts}`, nth, record: JSON.stringify(record) });
}

export type LogLines = StoredJob["log"];

// An item may hold as many lines as are kept: as many more must come before none of them is among the last.
const PLACES = 2 * LIMITS.logLines;
// What lines of a log weigh in one item at most, as JSON.
const LINES_BYTES = 300 * 1024;

/**
 * Lines of a job's log, of which `before` came first; in as many items as they need. What is no longer among the last is
 * written over, sooner or later.
 */
export function logItems(id: string, before: number, lines: LogLines): Item[] {
  const { pk } = jobKey(id);
  const first = Math.max(0, lines.length - LIMITS.logLines);
  const parts: { nth: number; lines: LogLines[number][] }[] = [];
  let left = 0;
  for (const [at, line] of lines.entries()) {
    if (at < first) continue;
    const kept = fitting(line);
    left -= jsonBytes(JSON.stringify(kept)) + 1;
    if (left < 0) {
      parts.push({ nth: before + at, lines: [] });
      left = LINES_BYTES - jsonBytes(JSON.stringify(kept)) - 1;
    }
    parts.at(-1)?.lines.push(kept);
  }
  return parts.map(({ nth, lines: part }) =>
    itemOf({ pk, sk: `${BESIDE.log}${nth % PLACES}`, nth, lines: JSON.stringify(part) }),
  );
}

/** A line alone may be too long for an item. A character of JSON is six bytes at most. */
function fitting(line: LogLines[number]): LogLines[number] {
  const most = LINES_BYTES / 6 - 100;
  return line.line.length <= most ? line : { ...line, line: `${line.line.slice(0, most - 1).toWellFormed()}…` };
}

export interface WholeJob {
  job: Item;
  inputs: Map<string, string>;
  attempts: AttemptRecord[];
  log: { at: number; line: string }[];
}

/** All items of a job. */
function itemsOf(table: Table, id: string): Promise<Item[]> {
  return table.all({ hash: jobKey(id).pk, consistent: true });
}

/** A job with what it has beside itself. */
export async function wholeJob(table: Table, id: string): Promise<WholeJob | null> {
  const items = await itemsOf(table, id);
  const named = (beginning: string): Item[] =>
    items
      .filter((item) => textOf(item, "sk")?.startsWith(beginning) === true)
      .toSorted((a, b) => (numberOf(a, "nth") ?? 0) - (numberOf(b, "nth") ?? 0));
  const job = items.find((item) => textOf(item, "sk") === "job");
  if (job === undefined) return null;
  const read = <Value>(item: Item, name: string): Value => JSON.parse(textOf(item, name) ?? "null") as Value;
  return {
    job,
    inputs: new Map(named(BESIDE.input).map(inputEntry)),
    attempts: named(BESIDE.attempt).map((item) => read<AttemptRecord>(item, "record")),
    log: named(BESIDE.log)
      .flatMap((item) => read<{ at: number; line: string }[]>(item, "lines"))
      .slice(-LIMITS.logLines),
  };
}

function inputEntry(item: Item): [string, string] {
  return [inputName(textOf(item, "pk") ?? "", textOf(item, "sk") ?? ""), textOf(item, "input") ?? ""];
}

/** The inputs of those jobs that have them elsewhere. */
export async function inputsOf(
  table: Table,
  jobs: readonly Item[],
  patience: Patience = {},
): Promise<Map<string, string>> {
  const keys = jobs.flatMap((job): Key[] => {
    const at = textOf(job, "input_at");
    return at === null ? [] : [{ pk: textOf(job, "pk") ?? "", sk: at }];
  });
  return new Map(keys.length === 0 ? [] : (await table.getAll(keys, patience)).map(inputEntry));
}

/**
 * Deletes what a job had beside itself. Of inputs only its own: another may be that of a job which is enqueued under the
 * same id this moment, and has yet to be written.
 */
export async function deleteBeside(table: Table, { id, inputAt }: JobItem, now: number): Promise<void> {
  const { pk, sk: own } = jobKey(id);
  const found = (await itemsOf(table, id)).filter((item) => {
    const sk = textOf(item, "sk") ?? "";
    return sk !== own && (!sk.startsWith(BESIDE.input) || sk === inputAt || isForgotten(item, now));
  });
  await Promise.all(found.map((item) => table.delete({ pk, sk: textOf(item, "sk") ?? "" })));
}

// Whoever writes something that is referred to by what is written next has done so long before.
const FORGOTTEN_MS = 3_600_000;

/** Whether an item that nobody refers to was left behind by somebody who never came to refer to it. */
export function isForgotten(item: Item, now: number): boolean {
  return (numberOf(item, "at") ?? 0) < now - FORGOTTEN_MS;
}
