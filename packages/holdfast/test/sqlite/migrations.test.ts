import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Database } from "better-sqlite3";
import { holdfast, job } from "holdfast";
import { describe, expect, it } from "vitest";
import { startChild } from "./child.js";
import { connect, integrity, open, openStore, tempFile } from "./scene.js";

const PROCESSES = 6;

function schema(db: Database, names = "holdfast%"): unknown[] {
  return db.prepare("SELECT type, name, sql FROM sqlite_schema WHERE name LIKE ? ORDER BY name").all(names);
}

function versions(db: Database): unknown[] {
  return db.prepare("SELECT version FROM holdfast_migrations ORDER BY version").pluck().all();
}

/** A job row as the store writes it, with some columns changed. */
function insertJob(db: Database, changed: Record<string, string | number | null>): void {
  const row = {
    id: "018f4d2e-7b3a-7c11-8a55-0123456789ab",
    type: "mail",
    queue: "default",
    priority: 0,
    state: "pending",
    input: "{}",
    attempt: 0,
    max_attempts: 4,
    losses: 0,
    releases: 0,
    fence: 0,
    run_at: 0,
    due_at: 0,
    created_at: 0,
    updated_at: 0,
    ...changed,
  };
  const columns = Object.keys(row);
  db.prepare(`INSERT INTO holdfast_jobs (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`).run(
    Object.values(row),
  );
}

describe("migrations", () => {
  it("are numbered without gaps and run once", async () => {
    const file = tempFile();
    const store = await openStore(file);
    const db = connect(file);
    const before = { schema: schema(db), versions: versions(db) };
    expect(before.versions).toEqual(before.versions.map((_, index) => index + 1));
    expect(before.versions.length).toBeGreaterThan(0);
    await store.migrate();
    await Promise.all([store.migrate(), store.migrate()]);
    await openStore(file);
    expect({ schema: schema(db), versions: versions(db) }).toEqual(before);
  });

  it(`run once when ${PROCESSES} processes open a new file together`, async () => {
    const file = tempFile();
    const children = Array.from({ length: PROCESSES }, () => startChild("client.mjs", [file]));
    await Promise.all(children.map((child) => child.next("up")));
    for (const child of children) child.send({ do: "open" });
    await Promise.all(children.map((child) => child.next("opened")));
    for (const child of children) child.send({ do: "enqueue", type: "quick", count: 1 });
    await Promise.all(children.map((child) => child.next("enqueued")));
    const db = connect(file);
    expect(versions(db)).toEqual(versions(db).map((_, index) => index + 1));
    expect((await (await open(file)).stats()).states.pending).toBe(PROCESSES);
    expect(integrity(file)).toBe("ok");
  });

  it("take no write lock if the schema is up to date", async () => {
    const file = tempFile();
    await openStore(file);
    const other = connect(file);
    other.exec("BEGIN IMMEDIATE");
    const hf = await open(file);
    expect(await hf.list()).toEqual({ jobs: [], cursor: null, examined: 0 });
    other.exec("ROLLBACK");
  });

  it("refuse a newer schema and leave the file unchanged", async () => {
    const file = tempFile();
    await (await openStore(file)).close();
    const db = connect(file);
    const known = versions(db).length;
    db.prepare("INSERT INTO holdfast_migrations VALUES (?, 0)").run(known + 7);
    db.close();
    const digest = (): string => createHash("sha256").update(readFileSync(file)).digest("hex");
    const before = digest();
    await expect(holdfast({ store: `sqlite:${file}` })).rejects.toMatchObject({
      name: "SchemaTooNewError",
      code: "SCHEMA_TOO_NEW",
      message: `the database is at schema version ${known + 7}, this version of Holdfast supports ${known}; upgrade the holdfast package`,
    });
    expect(digest()).toBe(before);
  });

  it("C-01 create a schema that rejects invalid states, attempts and priorities", async () => {
    const file = tempFile();
    await openStore(file);
    const db = connect(file);
    const refused = expect.objectContaining({ code: "SQLITE_CONSTRAINT_CHECK" });
    for (const state of ["queued", "done", "", "PENDING", "pending "]) {
      expect(() => insertJob(db, { state })).toThrow(refused);
    }
    for (const changed of [
      { max_attempts: 0 },
      { max_attempts: -1 },
      { attempt: -1 },
      { priority: 101 },
      { priority: -101 },
    ]) {
      expect(() => insertJob(db, changed)).toThrow(refused);
    }
    expect(() => insertJob(db, { state: null })).toThrow(
      expect.objectContaining({ code: "SQLITE_CONSTRAINT_NOTNULL" }),
    );
    expect(() => insertJob(db, { max_attempts: "many" })).toThrow(
      expect.objectContaining({ code: "SQLITE_CONSTRAINT_DATATYPE" }),
    );
    insertJob(db, {});
    expect(() => db.exec("UPDATE holdfast_jobs SET state = 'lost'")).toThrow(refused);
    expect(() => db.exec("UPDATE holdfast_jobs SET max_attempts = 0")).toThrow(refused);
    for (const state of ["claimed", "running", "failed", "completed", "dead", "cancelled"]) {
      db.prepare("UPDATE holdfast_jobs SET state = ?").run(state);
    }
  });

  it("leave the tables of the application alone", async () => {
    const file = tempFile();
    const db = connect(file);
    db.exec(`
      CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT);
      CREATE TABLE jobs (title TEXT);
      CREATE TABLE migrations (version INTEGER);
      CREATE INDEX users_name ON users (name);
      PRAGMA user_version = 42;
      INSERT INTO users VALUES (1, 'ada'), (2, 'grace');
      INSERT INTO jobs VALUES ('clerk');
      INSERT INTO migrations VALUES (9);
    `);
    const own = (): unknown => ({
      schema: [...schema(db, "users%"), ...schema(db, "jobs"), ...schema(db, "migrations")],
      rows: ["users", "jobs", "migrations"].map((table) => db.prepare(`SELECT * FROM ${table}`).all()),
      version: db.pragma("user_version", { simple: true }),
    });
    const before = own();
    const quick = job({ type: "quick", run() {} });
    const hf = await open(file, { jobs: [quick] });
    await hf.enqueueMany(quick, Array(50).fill({}));
    expect(await hf.drain()).toBe(50);
    expect(await hf.purge({ state: "completed", olderThan: 0 })).toBe(50);
    await hf.close();
    expect(own()).toEqual(before);
    const others = db
      .prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'holdfast%' AND name NOT LIKE 'sqlite%' ORDER BY name",
      )
      .pluck();
    expect(others.all()).toEqual(["jobs", "migrations", "users"]);
    expect(integrity(file)).toBe("ok");
  });
});
