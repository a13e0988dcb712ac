import type { Database } from "better-sqlite3";
import type { HistoryMerge, HistoryPage, HistoryRange, HistoryRecord, HistoryResolution } from "../../store.js";
import { historyPage } from "../history-page.js";

export interface HistoryOperations {
  put(records: readonly HistoryRecord[]): void;
  read(range: HistoryRange): HistoryPage;
  merge(merge: HistoryMerge): boolean;
  purge(request: { resolution: HistoryResolution; before: number; limit: number }): number;
}

/** putHistory, history, mergeHistory, purgeHistory. */
export function historyOperations(db: Database): HistoryOperations {
  const put = db.prepare(
    `INSERT INTO holdfast_history (resolution, at, writer, data) VALUES (@resolution, @at, @writer, @data)
     ON CONFLICT DO UPDATE SET data = excluded.data`,
  );
  const select = "SELECT resolution, at, writer, data FROM holdfast_history WHERE resolution = @resolution";
  const read = db.prepare(
    `${select} AND at >= @from AND at < @to AND (at, writer) > (@afterAt, @afterWriter) ORDER BY at, writer LIMIT @limit`,
  );
  const dataOf = db.prepare("SELECT data FROM holdfast_history WHERE resolution = ? AND at = ? AND writer = ?").pluck();
  const remove = db.prepare("DELETE FROM holdfast_history WHERE resolution = ? AND at = ? AND writer = ?");
  const oldest = db.prepare(
    "SELECT at, writer FROM holdfast_history WHERE resolution = ? AND at < ? ORDER BY at, writer LIMIT ?",
  );
  return {
    put(records) {
      for (const record of records) put.run(record);
    },
    read: ({ after, ...range }) => {
      const position = { afterAt: after?.at ?? Number.MIN_SAFE_INTEGER, afterWriter: after?.writer ?? "" };
      return historyPage(read.all({ ...range, ...position }) as HistoryRecord[], range.limit);
    },
    merge({ record, replaced }) {
      const { resolution, at } = record;
      if (replaced.some(({ writer, data }) => dataOf.get(resolution, at, writer) !== data)) return false;
      for (const { writer } of replaced) remove.run(resolution, at, writer);
      put.run(record);
      return true;
    },
    purge({ resolution, before, limit }) {
      const rows = oldest.all(resolution, before, limit) as { at: number; writer: string }[];
      for (const { at, writer } of rows) remove.run(resolution, at, writer);
      return rows.length;
    },
  };
}
