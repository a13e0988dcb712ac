import { checkEqual } from "./check.js";
import type { Story } from "./tour.js";

/** Rows around each limit: [table, columns, number of rows, values]. */
const ROWS: [table: string, columns: string, rows: number, values: string][] = [
  ["app_sessions", "user_id, expires_at", 2_345, "n, now() - n * interval '1 minute'"],
  ["app_sessions", "user_id, expires_at", 40, "n, now() + n * interval '1 hour'"],
  ["app_oauth_tokens", "user_id, expires_at", 700, "n, now() - interval '2 days'"],
  [
    "app_oauth_tokens",
    "user_id, expires_at, revoked_at",
    300,
    "n, now() + interval '1 day', now() - interval '25 hours'",
  ],
  ["app_oauth_tokens", "user_id, expires_at", 25, "n, now() - interval '23 hours'"],
  ["app_oauth_tokens", "user_id, expires_at", 100, "n, now() + interval '1 hour'"],
  ["app_oauth_authorization_codes", "user_id, expires_at", 150, "n, now() - interval '1 minute'"],
  [
    "app_oauth_authorization_codes",
    "user_id, expires_at, used_at",
    50,
    "n, now() + interval '1 day', now() - interval '2 days'",
  ],
  ["app_oauth_authorization_codes", "user_id, expires_at", 10, "n, now() + interval '1 minute'"],
  ["app_magic_links", "email, expires_at", 600, "'ada@example.com', now() - interval '1 hour'"],
  ["app_magic_links", "email, expires_at", 20, "'ada@example.com', now() + interval '1 hour'"],
  ["app_password_resets", "email, expires_at", 80, "'ada@example.com', now() - interval '1 hour'"],
  ["app_password_resets", "email, expires_at", 5, "'ada@example.com', now() + interval '1 hour'"],
  [
    "app_webhook_deliveries",
    "url, status, created_at",
    1_200,
    "'https://example.com', 200, now() - interval '169 hours'",
  ],
  ["app_webhook_deliveries", "url, status, created_at", 30, "'https://example.com', 500, now() - interval '167 hours'"],
];

/** What each schedule deletes, and how many rows each table keeps. */
const EXPECTED: [schedule: string, deleted: Record<string, number>, kept: Record<string, number>][] = [
  ["session_cleanup_hourly", { app_sessions: 2_345 }, { app_sessions: 40 }],
  [
    "expired_oauth_cleanup_daily",
    { app_oauth_tokens: 1_000, app_oauth_authorization_codes: 200 },
    { app_oauth_tokens: 125, app_oauth_authorization_codes: 10 },
  ],
  [
    "expired_auth_cleanup_daily",
    { app_magic_links: 600, app_password_resets: 80 },
    { app_magic_links: 20, app_password_resets: 5 },
  ],
  ["webhook_delivery_prune_daily", { app_webhook_deliveries: 1_200 }, { app_webhook_deliveries: 30 }],
];

export const cleanUp: Story = {
  title: "Expired rows are deleted in chunks, live rows stay",
  async run(tour, print) {
    for (const [table, columns, rows, values] of ROWS) {
      await tour.sql(`INSERT INTO ${table} (${columns}) SELECT ${values} FROM generate_series(1, ${rows}) AS n`);
    }
    /** The first progress of each job: one chunk. */
    const firstChunks = new Map<string, unknown>();
    const stopListening = tour.backend.hf.on("progress", ({ id, data }) => {
      if (!firstChunks.has(id)) firstChunks.set(id, data);
    });
    for (const [schedule, deleted, kept] of EXPECTED) {
      const id = await tour.runNow(schedule);
      const { output } = await tour.finished(id);
      checkEqual(`The output of ${schedule}`, output, { deleted });
      for (const [table, rows] of Object.entries(kept)) {
        checkEqual(`The rows that ${table} keeps`, await tour.count(table), rows);
        print(`${schedule}: ${deleted[table]} rows of ${table} deleted, ${rows} kept`);
      }
      if (schedule === "session_cleanup_hourly") {
        checkEqual("The first chunk", firstChunks.get(id), { app_sessions: 500 });
        print(`${schedule}: in chunks of 500 rows, each in a transaction of its own`);
      }
    }
    stopListening();
  },
};
