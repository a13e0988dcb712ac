import type { HistoryRange, HistoryRecord, HistoryResolution, Store } from "../../store.js";

export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;
export const STEP_MS: Readonly<Record<HistoryResolution, number>> = { minute: MINUTE_MS, hour: HOUR_MS };

const PAGE = 100;
// A day of minutes that were not merged yet, of several processes.
const MAX_RECORDS = 20_000;

/** When the minute or hour of this time began. */
export function startOf(resolution: HistoryResolution, time: number): number {
  return Math.floor(time / STEP_MS[resolution]) * STEP_MS[resolution];
}

type Range = Pick<HistoryRange, "resolution" | "from" | "to">;

/** The records of a range, read in pages: a record may have a quarter of a megabyte. */
export async function* recordsOf(store: Pick<Store, "history">, range: Range): AsyncGenerator<HistoryRecord, void> {
  let after: HistoryRange["after"] = null;
  for (let count = 0; count < MAX_RECORDS;) {
    const page: HistoryRecord[] = await store.history({ ...range, limit: PAGE, after });
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE) return;
    after = { at: last.at, writer: last.writer };
    count += page.length;
  }
}

/** All records of a range. */
export async function readRecords(store: Pick<Store, "history">, range: Range): Promise<HistoryRecord[]> {
  const records: HistoryRecord[] = [];
  for await (const record of recordsOf(store, range)) records.push(record);
  return records;
}
