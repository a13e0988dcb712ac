import type { HistoryMerge, HistoryPage, HistoryRange, HistoryRecord, HistoryResolution } from "../../store.js";
import type { Runner } from "./connection/db.js";
import { historyPage } from "../history-page.js";
import { rowsOf, type Sql } from "./connection/sql.js";

export interface HistoryOperations {
  put(runner: Runner, records: readonly HistoryRecord[]): Promise<void>;
  read(runner: Runner, range: HistoryRange): Promise<HistoryPage>;
  merge(runner: Runner, merge: HistoryMerge): Promise<boolean>;
  purge(runner: Runner, request: { resolution: HistoryResolution; before: number; limit: number }): Promise<number>;
}

/** putHistory, history, mergeHistory, purgeHistory. */
export function historyOperations(sql: Sql): HistoryOperations {
  const { s } = sql;
  // In order, so that two processes cannot deadlock.
  const put = sql.statement(
    "put_history",
    `INSERT INTO ${s}.history (resolution, at, writer, data)
     SELECT r.resolution, r.at, r.writer, r.data FROM ${rowsOf("$1::text[], $2::bigint[], $3::text[], $4::text[]")} AS r (resolution, at, writer, data)
     ORDER BY r.resolution, r.at, r.writer COLLATE "C" ON CONFLICT (resolution, at, writer) DO UPDATE SET data = excluded.data`,
  );
  const read = sql.statement(
    "history",
    `SELECT resolution, at::float8, writer, data FROM ${s}.history WHERE resolution = $1 AND at >= $2::bigint AND at < $3::bigint
       AND (at, writer) > ($4::bigint, $5::text) ORDER BY at, writer LIMIT $6::bigint`,
  );
  // A row that another process is changing is locked first, and compared as it is then.
  const merge = sql.statement(
    "merge_history",
    `WITH same AS MATERIALIZED (
       SELECT h.ctid AS address, h.writer FROM ${s}.history h
       WHERE h.resolution = $1 AND h.at = $2::bigint AND h.writer = ANY ($5::text[])
         AND h.data = ($6::text[])[pg_catalog.array_position($5::text[], h.writer)] ORDER BY h.writer FOR UPDATE
     ), complete AS MATERIALIZED (SELECT pg_catalog.count(*) = pg_catalog.cardinality($5::text[]) AS whole FROM same),
     gone AS (
       DELETE FROM ${s}.history WHERE (SELECT c.whole FROM complete c) AND ctid = ANY (ARRAY(SELECT address FROM same WHERE writer <> $3::text))
     ), written AS (
       INSERT INTO ${s}.history (resolution, at, writer, data) SELECT $1, $2::bigint, $3::text, $4::text FROM complete c WHERE c.whole
       ON CONFLICT (resolution, at, writer) DO UPDATE SET data = excluded.data
     )
     SELECT c.whole FROM complete c`,
  );
  const purge = sql.statement(
    "purge_history",
    `WITH gone AS (
       DELETE FROM ${s}.history WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM ${s}.history WHERE resolution = $1 AND at < $2::bigint ORDER BY at, writer LIMIT $3::bigint FOR UPDATE SKIP LOCKED)) RETURNING 1
     ) SELECT pg_catalog.count(*)::float8 FROM gone`,
  );
  return {
    async put(runner, records) {
      // One statement cannot write a record twice: the last one counts.
      const different = [
        ...new Map(records.map((each) => [`${each.resolution} ${each.at} ${each.writer}`, each])).values(),
      ];
      await runner.run(put, [
        different.map(({ resolution }) => resolution),
        different.map(({ at }) => at),
        different.map(({ writer }) => writer),
        different.map(({ data }) => data),
      ]);
    },
    async read(runner, { resolution, from, to, limit, after }) {
      const position = [after?.at ?? Number.MIN_SAFE_INTEGER, after?.writer ?? ""];
      const rows = await runner.run(read, [resolution, from, to, ...position, limit]);
      const records = rows.map((row): HistoryRecord => {
        const [of, at, writer, data] = row as [HistoryResolution, number, string, string];
        return { resolution: of, at, writer, data };
      });
      return historyPage(records, limit);
    },
    async merge(runner, { record: { resolution, at, writer, data }, replaced }) {
      const byWriter = [...new Map(replaced.map((each) => [each.writer, each.data]))];
      const columns = [byWriter.map(([each]) => each), byWriter.map(([, each]) => each)];
      const [row] = await runner.run(merge, [resolution, at, writer, data, ...columns]);
      return row?.[0] === true;
    },
    async purge(runner, { resolution, before, limit }) {
      const [row] = await runner.run(purge, [resolution, before, limit]);
      return row?.[0] as number;
    },
  };
}
