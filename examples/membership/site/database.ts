import Database from "better-sqlite3";

export type Db = Database.Database;

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS members (
    id TEXT PRIMARY KEY,
    email TEXT NOT NULL UNIQUE COLLATE NOCASE,
    name TEXT NOT NULL,
    password TEXT NOT NULL,
    is_staff INTEGER NOT NULL DEFAULT 0,
    newsletter INTEGER NOT NULL DEFAULT 0,
    unsubscribe_key TEXT NOT NULL UNIQUE,
    discord_id TEXT UNIQUE
  ) STRICT;
  CREATE TABLE IF NOT EXISTS sessions (
    hash TEXT PRIMARY KEY,
    member_id TEXT NOT NULL REFERENCES members (id),
    expires_at INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS sign_in_links (
    hash TEXT PRIMARY KEY,
    member_id TEXT NOT NULL REFERENCES members (id),
    expires_at INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS memberships (
    member_id TEXT PRIMARY KEY REFERENCES members (id),
    subscription_id TEXT NOT NULL,
    plan TEXT NOT NULL,
    status TEXT NOT NULL,
    version INTEGER NOT NULL DEFAULT 1
  ) STRICT;
  CREATE TABLE IF NOT EXISTS payments (
    invoice_id TEXT PRIMARY KEY,
    member_id TEXT NOT NULL REFERENCES members (id),
    cents INTEGER NOT NULL,
    currency TEXT NOT NULL,
    paid_at INTEGER NOT NULL
  ) STRICT;`;

/** Opens the file that also holds the jobs, so that one transaction can write a row and enqueue a job. */
export function openDatabase(file: string): Db {
  const db = new Database(file, { timeout: 5_000 });
  db.pragma("journal_mode = WAL");
  // A sign-up that was confirmed survives a power failure, like its job.
  db.pragma("synchronous = FULL");
  db.pragma("foreign_keys = ON");
  db.exec(SCHEMA);
  return db;
}
