import { migrate, type Database, type PackSchema, type Steps, type Transaction } from "holdfast/pack";
import type { ResetRecords, ResetRequest } from "./records.js";

const SCHEMA: PackSchema = {
  prefix: "password_reset_",
  versions: [
    ({ table, types }) => [
      `CREATE TABLE ${table("tokens")} (
        hash ${types.text} PRIMARY KEY,
        user_id ${types.text} NOT NULL,
        created_at ${types.time} NOT NULL,
        expires_at ${types.time} NOT NULL
      )`,
      `CREATE INDEX password_reset_tokens_user ON ${table("tokens")} (user_id)`,
      `CREATE INDEX password_reset_tokens_expiry ON ${table("tokens")} (expires_at)`,
      // recent: the times of the requests that count towards the limit, as JSON.
      `CREATE TABLE ${table("requests")} (
        address ${types.text} PRIMARY KEY,
        recent ${types.text} NOT NULL,
        expires_at ${types.time} NOT NULL
      )`,
      `CREATE INDEX password_reset_requests_expiry ON ${table("requests")} (expires_at)`,
    ],
    // The newest request for an address. An address without an account has a user that does not exist.
    ({ table, types }) => [
      `ALTER TABLE ${table("requests")} ADD COLUMN user_id ${types.text}`,
      `ALTER TABLE ${table("requests")} ADD COLUMN job_id ${types.text}`,
      `ALTER TABLE ${table("requests")} ADD COLUMN requested_at ${types.time}`,
      `CREATE INDEX password_reset_requests_user ON ${table("requests")} (user_id, requested_at)`,
    ],
  ],
};

/** How many expired rows a call deletes: more than it adds, and few enough to be quick. */
const EXPIRED = 10;

/** Records on SQLite or PostgreSQL, in the database that holds the jobs. */
export function sqlRecords(db: Database): ResetRecords {
  const tokens = db.table("password_reset_tokens");
  const requests = db.table("password_reset_requests");

  function* deleteExpired(tx: Transaction, table: string, key: string, now: Date): Steps<void> {
    // Two transactions that delete the same rows in another order would deadlock.
    const lock = tx.dialect === "postgres" ? "FOR UPDATE SKIP LOCKED" : "";
    yield* tx.query(
      `DELETE FROM ${table} WHERE ${key} IN
        (SELECT ${key} FROM ${table} WHERE expires_at <= ? ORDER BY expires_at LIMIT ${EXPIRED} ${lock})`,
      [now],
    );
  }

  /** Null, or when the next request is allowed. The row is locked until the end of the transaction. */
  function* count(tx: Transaction, given: ResetRequest): Steps<Date | null> {
    const { address, user, jobId, now, limit, perMs, expiresAt } = given;
    const at = now.getTime();
    const [row] = yield* tx.query<{ recent: string }>(
      `INSERT INTO ${requests} AS r (address, recent, expires_at) VALUES (?, '[]', ?)
        ON CONFLICT (address) DO UPDATE SET expires_at = excluded.expires_at RETURNING recent`,
      [address, expiresAt],
    );
    const recent = (JSON.parse(row?.recent ?? "[]") as number[]).filter((time) => time > at - perMs);
    if (recent.length >= limit) return new Date((recent.at(-limit) ?? at) + perMs);
    yield* tx.query(`UPDATE ${requests} SET recent = ?, user_id = ?, job_id = ?, requested_at = ? WHERE address = ?`, [
      JSON.stringify([...recent, at]),
      user,
      jobId,
      now,
      address,
    ]);
    return null;
  }

  function* consume(tx: Transaction, hash: string, now: Date): Steps<string | null> {
    const deleted = yield* tx.query<{ hash: string; user_id: string }>(
      `DELETE FROM ${tokens} WHERE user_id = (SELECT user_id FROM ${tokens} WHERE hash = ? AND expires_at > ?)
        RETURNING hash, user_id`,
      [hash, now],
    );
    // Another transaction may have used the token after this statement had found its user.
    return deleted.find((row) => row.hash === hash)?.user_id ?? null;
  }

  function* revoke(tx: Transaction, user: string): Steps<void> {
    yield* tx.query(`DELETE FROM ${tokens} WHERE user_id = ?`, [user]);
  }

  return {
    install: () => migrate(db, SCHEMA),
    async request(given, enqueue) {
      let enqueued: unknown;
      const retryAt = await db.transaction(function* (tx): Steps<Date | null> {
        const full = yield* count(tx, given);
        if (full !== null) return full;
        yield* deleteExpired(tx, requests, "address", given.now);
        yield* tx.query("SAVEPOINT password_reset");
        enqueued = yield* tx.call(() => enqueue(tx.handle));
        yield* tx.query(`${given.keep ? "RELEASE" : "ROLLBACK TO"} SAVEPOINT password_reset`);
        return null;
      });
      await enqueued;
      return retryAt;
    },
    async newest(user) {
      const [row] = await db.query<{ job_id: string }>(
        `SELECT job_id FROM ${requests} WHERE user_id = ? ORDER BY requested_at DESC LIMIT 1`,
        [user],
      );
      return row?.job_id ?? null;
    },
    create: ({ hash, user, now, expiresAt }) =>
      db.transaction(function* (tx): Steps<void> {
        yield* deleteExpired(tx, tokens, "hash", now);
        yield* tx.query(`INSERT INTO ${tokens} (hash, user_id, created_at, expires_at) VALUES (?, ?, ?, ?)`, [
          hash,
          user,
          now,
          expiresAt,
        ]);
      }),
    consume: (hash, now) => db.transaction((tx) => consume(tx, hash, now)),
    consumeIn: (tx, hash, now) => db.within(tx, (steps) => consume(steps, hash, now)),
    revoke: (user) => db.transaction((tx) => revoke(tx, user)),
    revokeIn: (tx, user) => db.within(tx, (steps) => revoke(steps, user)),
  };
}
