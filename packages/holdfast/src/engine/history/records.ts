import type { HistoryRange, HistoryRecord, HistoryResolution, Store } from "../../store.js";

export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;
export const STEP_MS: Readonly<Record<HistoryResolution, number>> = { minute: MINUTE_MS, hour: HOUR_MS };

const PAGE = 500;
// A day of minutes that were not merged yet, of several processes.
const MAX_RECORDS = 20_000;

/** When the minute or hour of this time began. */
export function startOf(resolution: HistoryResolution, time: number): number {
  return Math.floor(time / STEP_MS[resolution]) * STEP_MS[resolution];
}

/** All records of a range, in pages. */
export async function readRecords(
  store: Pick<Store, "history">,
  range: Pick<HistoryRange, "resolution" | "from" | "to">,
): Promise<HistoryRecord[]> {
  const records: HistoryRecord[] = [];
  for (;;) {
    const last = records.at(-1);
    const after = last === undefined ? null : { at: last.at, writer: last.writer };
    const page = await store.history({ ...range, limit: PAGE, after });
    records.push(...page);
    if (page.length < PAGE || records.length >= MAX_RECORDS) return records;
  }
}
