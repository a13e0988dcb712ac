import type { Database } from "better-sqlite3";
import { LIMITS } from "../../../defaults.js";
import type { AttemptRecord, Outcome } from "../../../store.js";

/** The last error of a job, its earlier attempts and its log lines, each limited in number. */
export interface History {
  setError(job: number, error: NonNullable<Outcome["error"]>, now: number): void;
  appendAttempt(job: number, record: AttemptRecord): void;
  appendLog(job: number, lines: readonly { at: number; line: string }[]): void;
  attempts(job: number): AttemptRecord[];
  log(job: number): { at: number; line: string }[];
  remove(job: number): void;
}

export function historyStatements(db: Database): History {
  const setError = db.prepare(
    "UPDATE holdfast_jobs SET error = ?, error_code = ?, error_at = ?, fingerprint = ? WHERE seq = ?",
  );
  const lastAttempt = db.prepare("SELECT coalesce(max(n), 0) FROM holdfast_attempts WHERE job = ?").pluck();
  const addAttempt = db.prepare("INSERT INTO holdfast_attempts (job, n, record) VALUES (?, ?, ?)");
  const dropAttempts = db.prepare("DELETE FROM holdfast_attempts WHERE job = ? AND n <= ?");
  const readAttempts = db.prepare("SELECT record FROM holdfast_attempts WHERE job = ? ORDER BY n").pluck();
  const lastLine = db.prepare("SELECT coalesce(max(n), 0) FROM holdfast_log WHERE job = ?").pluck();
  const addLine = db.prepare("INSERT INTO holdfast_log (job, n, at, line) VALUES (?, ?, ?, ?)");
  const dropLines = db.prepare("DELETE FROM holdfast_log WHERE job = ? AND n <= ?");
  const readLines = db.prepare("SELECT at, line FROM holdfast_log WHERE job = ? ORDER BY n");
  return {
    setError: (job, { message, code, fingerprint = null }, now) =>
      void setError.run(message, code, now, fingerprint, job),
    appendAttempt(job, record) {
      const n = (lastAttempt.get(job) as number) + 1;
      addAttempt.run(job, n, JSON.stringify(record));
      if (n > LIMITS.attempts) dropAttempts.run(job, n - LIMITS.attempts);
    },
    appendLog(job, lines) {
      let n = lastLine.get(job) as number;
      for (const { at, line } of lines) addLine.run(job, ++n, at, line);
      if (n > LIMITS.logLines) dropLines.run(job, n - LIMITS.logLines);
    },
    attempts: (job) => (readAttempts.all(job) as string[]).map((text) => JSON.parse(text) as AttemptRecord),
    log: (job) => readLines.all(job) as { at: number; line: string }[],
    remove(job) {
      dropAttempts.run(job, Number.MAX_SAFE_INTEGER);
      dropLines.run(job, Number.MAX_SAFE_INTEGER);
    },
  };
}
