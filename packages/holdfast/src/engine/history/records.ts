import type {
  HistoryPage,
  HistoryPosition,
  HistoryRange,
  HistoryRecord,
  HistoryResolution,
  Store,
} from "../../store.js";

export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;
export const STEP_MS: Readonly<Record<HistoryResolution, number>> = { minute: MINUTE_MS, hour: HOUR_MS };

// A record may have a quarter of a megabyte. A metered store ends a page at a megabyte, which is one request.
const PAGE = 100;
const METERED_PAGE = 1_000;
// A day of minutes that were not merged yet, of several processes.
const MAX_RECORDS = 20_000;

/** When the minute or hour of this time began. */
export function startOf(resolution: HistoryResolution, time: number): number {
  return Math.floor(time / STEP_MS[resolution]) * STEP_MS[resolution];
}

type Range = Pick<HistoryRange, "resolution" | "from" | "to">;

type HistoryStore = Pick<Store, "history" | "capabilities">;

/** The records of a range, read in pages. */
export async function* recordsOf(store: HistoryStore, range: Range): AsyncGenerator<HistoryRecord, void> {
  const limit = store.capabilities.metered ? METERED_PAGE : PAGE;
  let after: HistoryPosition | null = null;
  for (let count = 0; count < MAX_RECORDS;) {
    const { records, next }: HistoryPage = await store.history({ ...range, limit, after });
    yield* records;
    if (next === null) return;
    after = next;
    count += records.length;
  }
}

/** All records of a range. */
export async function readRecords(store: HistoryStore, range: Range): Promise<HistoryRecord[]> {
  const records: HistoryRecord[] = [];
  for await (const record of recordsOf(store, range)) records.push(record);
  return records;
}
