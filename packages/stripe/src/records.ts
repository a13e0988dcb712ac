import {
  migrate,
  quoteIdentifier,
  readTimeOrNull,
  type Database,
  type PackSchema,
  type Steps,
  type Transaction,
} from "holdfast/pack";
import type { AnyStripeEvent } from "./event.js";

/** A stored event. */
export interface EventRecord {
  /** As Stripe sent it. */
  readonly payload: string;
  /** When its effect was committed; null: not yet. */
  readonly processedAt: Date | null;
}

/** The table of events: `stripe_events`. */
export class EventRecords {
  readonly #db: Database;
  readonly #schema: PackSchema;
  readonly #table: string;

  constructor(db: Database, prefix: string) {
    this.#db = db;
    this.#table = db.table(`${prefix}events`);
    this.#schema = schemaOf(prefix);
  }

  install(): Promise<void> {
    return migrate(this.#db, this.#schema);
  }

  /** False if the event is stored already. Another transaction that stores it now is waited for. */
  *insert(tx: Transaction, { id, type, created }: AnyStripeEvent, payload: string, now: Date): Steps<boolean> {
    const rows = yield* tx.query(
      `INSERT INTO ${this.#table} (id, type, created, payload, received_at) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (id) DO NOTHING RETURNING id`,
      [id, type, new Date(created * 1_000), payload, now],
    );
    return rows.length > 0;
  }

  /** The event, locked until the end of the transaction: an event that has two jobs has one effect. */
  *lock(tx: Transaction, id: string): Steps<EventRecord | null> {
    const lock = tx.dialect === "postgres" ? " FOR UPDATE" : "";
    return readRecord(yield* tx.query(this.#select() + lock, [id]));
  }

  async find(id: string): Promise<EventRecord | null> {
    return readRecord(await this.#db.query(this.#select(), [id]));
  }

  *markProcessed(tx: Transaction, id: string, jobId: string, now: Date): Steps<void> {
    yield* tx.query(`UPDATE ${this.#table} SET processed_at = ?, job_id = ? WHERE id = ?`, [now, jobId, id]);
  }

  *markUnprocessed(tx: Transaction, id: string): Steps<void> {
    yield* tx.query(`UPDATE ${this.#table} SET processed_at = NULL, job_id = NULL WHERE id = ?`, [id]);
  }

  #select(): string {
    return `SELECT payload, processed_at FROM ${this.#table} WHERE id = ?`;
  }
}

function readRecord([row]: Record<string, unknown>[]): EventRecord | null {
  if (row === undefined) return null;
  return { payload: String(row["payload"]), processedAt: readTimeOrNull(row["processed_at"]) };
}

function schemaOf(prefix: string): PackSchema {
  return {
    prefix,
    versions: [
      ({ table, types }) => [
        // The payload is text: JSON columns would change it, and refuse the character NUL.
        `CREATE TABLE ${table("events")} (
          id ${types.text} PRIMARY KEY,
          type ${types.text} NOT NULL,
          created ${types.time} NOT NULL,
          payload ${types.text} NOT NULL,
          received_at ${types.time} NOT NULL,
          processed_at ${types.time},
          job_id ${types.text}
        )`,
        // For deleting old events.
        `CREATE INDEX ${quoteIdentifier(`${prefix}events_processed`, "prefix")} ON ${table("events")} (processed_at)`,
      ],
    ],
  };
}
