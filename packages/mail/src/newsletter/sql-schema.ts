import type { PackSchema } from "holdfast/pack";

/** The tables of newsletters. Published versions never change. */
export const NEWSLETTER_SCHEMA: PackSchema = {
  prefix: "newsletter_",
  versions: [
    ({ table, types }) => [
      `CREATE TABLE ${table("newsletters")} (
        id ${types.text} PRIMARY KEY,
        subject ${types.text} NOT NULL,
        text_body ${types.text},
        html_body ${types.text},
        created_at ${types.time} NOT NULL
      )`,
      `CREATE TABLE ${table("send_runs")} (
        id ${types.text} PRIMARY KEY,
        newsletter_id ${types.text} NOT NULL REFERENCES ${table("newsletters")} (id),
        scheduled_for ${types.time} NOT NULL,
        status ${types.text} NOT NULL CHECK (status IN ('scheduled', 'sending', 'sent', 'cancelled')),
        job_id ${types.text} NOT NULL,
        recipients ${types.integer},
        started_at ${types.time},
        finished_at ${types.time}
      )`,
      `CREATE INDEX newsletter_send_runs_newsletter ON ${table("send_runs")} (newsletter_id, scheduled_for)`,
      `CREATE INDEX newsletter_send_runs_due ON ${table("send_runs")} (scheduled_for)
        WHERE status IN ('scheduled', 'sending')`,
      `CREATE TABLE ${table("deliveries")} (
        run_id ${types.text} NOT NULL,
        subscriber_id ${types.text} NOT NULL,
        job_id ${types.text},
        status ${types.text} NOT NULL CHECK (status IN ('queued', 'sent', 'failed', 'skipped')),
        PRIMARY KEY (run_id, subscriber_id)
      )`,
    ],
  ],
};
