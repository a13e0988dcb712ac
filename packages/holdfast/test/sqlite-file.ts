import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import type { Clock } from "#src/clock.js";
import { openStore } from "#src/engine/open-store.js";
import type { CallerTransaction, StoreHarness, StoreUnderTest } from "#src/testing/exercise-store/index.js";

/** The conformance suite's stores on SQLite files. */
export const ON_FILE: Pick<StoreHarness, "create" | "createUnmigrated"> = {
  createUnmigrated: onFile,
  async create(clock) {
    const under = await onFile(clock);
    await under.store.migrate();
    return under;
  },
};

async function onFile(clock: Clock): Promise<StoreUnderTest> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-conformance-"));
  const file = join(folder, "jobs.db");
  const address = `sqlite:${file}`;
  const again = () => openStore(address, { clock });
  return {
    store: await again(),
    again,
    address,
    begin: () => Promise.resolve(transactionOn(file)),
    dispose: () => rm(folder, { recursive: true }),
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
