import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import type { Clock } from "#src/clock.js";
import { openStore } from "#src/engine/open-store.js";
import type { CallerTransaction, StoreHarness, StoreUnderTest } from "#src/testing/exercise-store/index.js";

/** The conformance suite's stores on SQLite files. */
export const ON_FILE: Pick<StoreHarness, "create" | "createUnmigrated"> = {
  createUnmigrated: (clock) => onFile(clock),
  async create(clock) {
    migrated ??= migratedFile();
    const under = await onFile(clock, await migrated);
    await under.store.migrate();
    return under;
  },
};

let migrated: Promise<string> | null = null;

/** An empty, migrated database. To copy it takes a few percent of the time that the migrations take. */
async function migratedFile(): Promise<string> {
  const file = await newFile();
  const store = await openStore(`sqlite:${file}`);
  await store.migrate();
  await store.close();
  return file;
}

export async function newFile(): Promise<string> {
  return join(await mkdtemp(join(tmpdir(), "holdfast-conformance-")), "jobs.db");
}

/** A store on a copy of the given database, or on a file that does not exist yet. */
async function onFile(clock: Clock, copied?: string): Promise<StoreUnderTest> {
  const file = await newFile();
  if (copied !== undefined) await copyFile(copied, file);
  const address = `sqlite:${file}`;
  const again = () => openStore(address, { clock });
  return {
    store: await again(),
    again,
    address,
    begin: () => Promise.resolve(transactionOn(file)),
    dispose: () => rm(dirname(file), { recursive: true }),
  };
}

/** A transaction on the application's own connection. */
function transactionOn(file: string): CallerTransaction {
  const db = new Database(file);
  const end = (statement: "COMMIT" | "ROLLBACK") => () => {
    db.exec(statement);
    db.close();
    return Promise.resolve();
  };
  db.exec("BEGIN IMMEDIATE");
  return { tx: db, commit: end("COMMIT"), rollback: end("ROLLBACK") };
}
