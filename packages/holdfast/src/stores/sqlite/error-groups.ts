import type { Database } from "better-sqlite3";
import { LIMITS } from "../../defaults.js";
import type { ErrorGroupRecord } from "../../store.js";

export interface ErrorGroupOperations {
  record(groups: readonly ErrorGroupRecord[]): void;
  list(limit: number): ErrorGroupRecord[];
  purge(before: number): number;
}

/** recordErrors, errorGroups, purgeErrorGroups. */
export function errorGroupOperations(db: Database): ErrorGroupOperations {
  const add = db.prepare(
    `INSERT INTO holdfast_error_groups AS g (fingerprint, type, name, code, message, frame, count, first_at, last_at, job, example)
     VALUES (@fingerprint, @type, @name, @code, @message, @frame, @count, @firstAt, @lastAt, @job, @example)
     ON CONFLICT DO UPDATE SET count = count + excluded.count, first_at = min(first_at, excluded.first_at),
       job = CASE WHEN excluded.last_at >= g.last_at THEN excluded.job ELSE g.job END,
       example = CASE WHEN excluded.last_at >= g.last_at THEN excluded.example ELSE g.example END,
       last_at = max(g.last_at, excluded.last_at)`,
  );
  const list = db.prepare(
    `SELECT fingerprint, type, name, code, message, frame, count, first_at AS firstAt, last_at AS lastAt, job, example
     FROM holdfast_error_groups ORDER BY last_at DESC, fingerprint DESC LIMIT ?`,
  );
  const deleteOld = db.prepare("DELETE FROM holdfast_error_groups WHERE last_at < ?");
  const deleteBeyond = db.prepare(
    `DELETE FROM holdfast_error_groups WHERE fingerprint IN (
       SELECT fingerprint FROM holdfast_error_groups ORDER BY last_at DESC, fingerprint DESC LIMIT -1 OFFSET ${LIMITS.errorGroups})`,
  );
  return {
    record(groups) {
      for (const group of groups) add.run(group);
    },
    list: (limit) => list.all(Math.min(limit, LIMITS.errorGroups)) as ErrorGroupRecord[],
    purge: (before) => deleteOld.run(before).changes + deleteBeyond.run().changes,
  };
}
