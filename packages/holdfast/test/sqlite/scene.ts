import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { holdfast, type Holdfast, type HoldfastOptions, type Job } from "holdfast";
import { sqlite, type SqliteOptions } from "holdfast/sqlite";
import { onTestFinished } from "vitest";
import type { Store } from "#src/store.js";

/** A folder that is deleted when the test ends. */
export function tempFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-sqlite-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
  return folder;
}

export function tempFile(): string {
  return join(tempFolder(), "jobs.db");
}

/** A client on the file, silent, closed when the test ends. */
export async function open(file: string, options: HoldfastOptions = {}): Promise<Holdfast> {
  const hf = await holdfast({ store: `sqlite:${file}`, logger: false, ...options });
  onTestFinished(() => hf.close());
  return hf;
}

/** The store on the file, migrated, closed when the test ends. */
export async function openStore(file: string, options: SqliteOptions = {}): Promise<Store> {
  const store = sqlite(file, options);
  onTestFinished(() => store.close());
  await store.migrate();
  return store;
}

/** A connection of the application, separate from the store's. */
export function connect(file: string, options: Database.Options = {}): Database.Database {
  const db = new Database(file, options);
  onTestFinished(() => void db.close());
  return db;
}

export async function everyJob(hf: Holdfast): Promise<Job[]> {
  const jobs: Job[] = [];
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<Holdfast["list"]>> = await hf.list({ limit: 1_000, cursor });
    jobs.push(...page.jobs);
    cursor = page.cursor;
  } while (cursor !== null);
  return jobs;
}

/** The result of SQLite's integrity check. */
export function integrity(file: string): unknown {
  const db = new Database(file, { readonly: true });
  try {
    return db.pragma("integrity_check", { simple: true });
  } finally {
    db.close();
  }
}

/** The best of up to three measurements: a delay that the store causes shows in each. */
export async function bestOf(measure: () => Promise<number>, goodEnough: number): Promise<number> {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 3 && best >= goodEnough; round++) best = Math.min(best, await measure());
  return best;
}
