import { migrate, readCount, readTime, readTimeOrNull, type Database, type SqlRow, type Steps } from "holdfast/pack";
import type { Delivery, DeliveryStatus, Newsletter, NewsletterRecords, SendRun, SendRunStatus } from "./records.js";
import { NEWSLETTER_SCHEMA } from "./sql-schema.js";

/** Records on SQLite or PostgreSQL, in the database that holds the jobs. */
export function sqlRecords(db: Database): NewsletterRecords {
  const newsletters = db.table("newsletter_newsletters");
  const runs = db.table("newsletter_send_runs");
  const deliveries = db.table("newsletter_deliveries");
  // Another schema of the search path may have a function with this name.
  const count = db.dialect === "postgres" ? "pg_catalog.count" : "count";

  /** Runs a statement that changes one row, and what follows from it, in one transaction. */
  async function changing(
    sql: string,
    values: readonly (string | Date)[],
    enqueue: (tx: unknown) => Promise<unknown>,
  ): Promise<boolean> {
    let enqueued: unknown;
    const changed = await db.transaction(function* (tx): Steps<boolean> {
      const rows = yield* tx.query(`${sql} RETURNING id`, values);
      if (rows.length === 0) return false;
      enqueued = yield* tx.call(() => enqueue(tx.handle));
      return true;
    });
    await enqueued;
    return changed;
  }
  const changes = async (sql: string, values: readonly (string | Date | null)[]): Promise<boolean> =>
    (await db.query(`${sql} RETURNING id`, values)).length > 0;

  return {
    install: () => migrate(db, NEWSLETTER_SCHEMA),

    async create({ id, subject, textBody, htmlBody, createdAt }) {
      await db.query(
        `INSERT INTO ${newsletters} (id, subject, text_body, html_body, created_at) VALUES (?, ?, ?, ?, ?)`,
        [id, subject, textBody, htmlBody, createdAt],
      );
    },
    update: ({ id, subject, textBody, htmlBody }) =>
      changes(
        `UPDATE ${newsletters} SET subject = ?, text_body = ?, html_body = ? WHERE id = ? AND NOT EXISTS
          (SELECT 1 FROM ${runs} WHERE newsletter_id = ? AND status IN ('sending', 'sent'))`,
        [subject, textBody, htmlBody, id, id],
      ),
    async newsletter(id) {
      const [row] = await db.query(`SELECT * FROM ${newsletters} WHERE id = ?`, [id]);
      return row === undefined ? null : readNewsletter(row);
    },
    async newsletters(limit) {
      const rows = await db.query(`SELECT * FROM ${newsletters} ORDER BY created_at DESC, id LIMIT ?`, [limit]);
      return rows.map(readNewsletter);
    },

    async run(id) {
      const [row] = await db.query(`SELECT * FROM ${runs} WHERE id = ?`, [id]);
      return row === undefined ? null : readRun(row);
    },
    async runs(newsletterId, limit) {
      const rows = await db.query(
        `SELECT * FROM ${runs} WHERE newsletter_id = ? ORDER BY scheduled_for DESC, id LIMIT ?`,
        [newsletterId, limit],
      );
      return rows.map(readRun);
    },
    async due(now, limit) {
      const rows = await db.query(
        `SELECT * FROM ${runs} WHERE status IN ('scheduled', 'sending') AND scheduled_for <= ?
          ORDER BY scheduled_for, id LIMIT ?`,
        [now, limit],
      );
      return rows.map(readRun);
    },
    async schedule({ id, newsletterId, scheduledFor, jobId }, enqueue) {
      await changing(
        `INSERT INTO ${runs} (id, newsletter_id, scheduled_for, status, job_id) VALUES (?, ?, ?, 'scheduled', ?)`,
        [id, newsletterId, scheduledFor, jobId],
        enqueue,
      );
    },
    move: (id, scheduledFor, enqueue) =>
      changing(
        `UPDATE ${runs} SET scheduled_for = ? WHERE id = ? AND status = 'scheduled'`,
        [scheduledFor, id],
        enqueue,
      ),
    cancel: (id, now) =>
      changes(`UPDATE ${runs} SET status = 'cancelled', finished_at = ? WHERE id = ? AND status = 'scheduled'`, [
        now,
        id,
      ]),
    start: (id, due, now) =>
      changes(
        `UPDATE ${runs} SET status = 'sending', started_at = ?
          WHERE id = ? AND status = 'scheduled' AND scheduled_for <= ?`,
        [now, id, due],
      ),
    async finish(id, now) {
      await db.query(
        `UPDATE ${runs} SET status = 'sent', finished_at = ?,
          recipients = (SELECT ${count}(*) FROM ${deliveries} WHERE run_id = ?)
          WHERE id = ? AND status = 'sending'`,
        [now, id, id],
      );
    },
    async setJob(id, jobId) {
      await db.query(`UPDATE ${runs} SET job_id = ? WHERE id = ?`, [jobId, id]);
    },

    async addDeliveries(run, added) {
      if (added.length === 0) return;
      await db.query(
        `INSERT INTO ${deliveries} (run_id, subscriber_id, job_id, status)
          VALUES ${added.map(() => "(?, ?, ?, ?)").join(", ")} ON CONFLICT (run_id, subscriber_id) DO NOTHING`,
        added.flatMap((delivery) => deliveryValues(run, delivery)),
      );
    },
    async setDelivery(run, delivery) {
      await db.query(
        `INSERT INTO ${deliveries} AS d (run_id, subscriber_id, job_id, status) VALUES (?, ?, ?, ?)
          ON CONFLICT (run_id, subscriber_id) DO UPDATE SET job_id = excluded.job_id, status = excluded.status
          WHERE d.status <> 'sent'`,
        deliveryValues(run, delivery),
      );
    },
    async isSent(run, subscriber) {
      const rows = await db.query(
        `SELECT status FROM ${deliveries} WHERE run_id = ? AND subscriber_id = ? AND status = 'sent'`,
        [run, subscriber],
      );
      return rows.length > 0;
    },
    async queued(run, after, limit) {
      const rows = await db.query<{ subscriber_id: string; job_id: string | null }>(
        `SELECT subscriber_id, job_id FROM ${deliveries}
          WHERE run_id = ? AND subscriber_id > ? AND status = 'queued' ORDER BY subscriber_id LIMIT ?`,
        [run, after, limit],
      );
      return rows.map((row) => ({ subscriber: row.subscriber_id, jobId: row.job_id, status: "queued" }));
    },
    async counts(counted) {
      if (counted.length === 0) return new Map();
      const rows = await db.query<{ run_id: string; status: DeliveryStatus; n: unknown }>(
        `SELECT run_id, status, ${count}(*) AS n FROM ${deliveries}
          WHERE run_id IN (${counted.map(() => "?").join(", ")}) GROUP BY run_id, status`,
        counted,
      );
      const counts = new Map(counted.map((run) => [run, { queued: 0, sent: 0, failed: 0, skipped: 0 }]));
      for (const { run_id: run, status, n } of rows) counts.get(run)![status] = readCount(n);
      return counts;
    },
  };
}

function deliveryValues(run: string, { subscriber, jobId, status }: Delivery): (string | null)[] {
  return [run, subscriber, jobId, status];
}

function readNewsletter(row: SqlRow): Newsletter {
  return {
    id: row["id"] as string,
    subject: row["subject"] as string,
    textBody: row["text_body"] as string | null,
    htmlBody: row["html_body"] as string | null,
    createdAt: readTime(row["created_at"]),
  };
}

function readRun(row: SqlRow): SendRun {
  const recipients = row["recipients"] ?? null;
  return {
    id: row["id"] as string,
    newsletterId: row["newsletter_id"] as string,
    scheduledFor: readTime(row["scheduled_for"]),
    status: row["status"] as SendRunStatus,
    jobId: row["job_id"] as string,
    recipients: recipients === null ? null : readCount(recipients),
    startedAt: readTimeOrNull(row["started_at"]),
    finishedAt: readTimeOrNull(row["finished_at"]),
  };
}
