import type { Pool } from "pg";

/** The tables of the backend. Each column that a clean-up job looks at has an index: every chunk looks for the oldest rows. */
export async function createTables(pool: Pool): Promise<void> {
  await pool.query(`
    CREATE TABLE IF NOT EXISTS app_sessions (
      id bigserial PRIMARY KEY, user_id bigint NOT NULL, expires_at timestamptz NOT NULL);
    CREATE TABLE IF NOT EXISTS app_oauth_tokens (
      id bigserial PRIMARY KEY, user_id bigint NOT NULL, expires_at timestamptz NOT NULL, revoked_at timestamptz);
    CREATE TABLE IF NOT EXISTS app_oauth_authorization_codes (
      id bigserial PRIMARY KEY, user_id bigint NOT NULL, expires_at timestamptz NOT NULL, used_at timestamptz);
    CREATE TABLE IF NOT EXISTS app_magic_links (
      id bigserial PRIMARY KEY, email text NOT NULL, expires_at timestamptz NOT NULL);
    CREATE TABLE IF NOT EXISTS app_password_resets (
      id bigserial PRIMARY KEY, email text NOT NULL, expires_at timestamptz NOT NULL);
    CREATE TABLE IF NOT EXISTS app_webhook_deliveries (
      id bigserial PRIMARY KEY, url text NOT NULL, status integer NOT NULL, created_at timestamptz NOT NULL DEFAULT now());

    CREATE INDEX IF NOT EXISTS app_sessions_expires_at ON app_sessions (expires_at);
    CREATE INDEX IF NOT EXISTS app_oauth_tokens_expires_at ON app_oauth_tokens (expires_at);
    CREATE INDEX IF NOT EXISTS app_oauth_tokens_revoked_at ON app_oauth_tokens (revoked_at);
    CREATE INDEX IF NOT EXISTS app_oauth_codes_expires_at ON app_oauth_authorization_codes (expires_at);
    CREATE INDEX IF NOT EXISTS app_oauth_codes_used_at ON app_oauth_authorization_codes (used_at);
    CREATE INDEX IF NOT EXISTS app_magic_links_expires_at ON app_magic_links (expires_at);
    CREATE INDEX IF NOT EXISTS app_password_resets_expires_at ON app_password_resets (expires_at);
    CREATE INDEX IF NOT EXISTS app_webhook_deliveries_created_at ON app_webhook_deliveries (created_at);
  `);
}
