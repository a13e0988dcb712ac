import type { HistoryPage, HistoryRecord } from "../store.js";

/** A page of a store that returns as many records as there are, up to the limit. */
export function historyPage(records: HistoryRecord[], limit: number): HistoryPage {
  const last = records.at(-1);
  const isEnd = last === undefined || records.length < limit;
  return { records, next: isEnd ? null : { at: last.at, writer: last.writer } };
}
