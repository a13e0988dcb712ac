import { closeSync, constants, copyFileSync, fsyncSync, openSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import Database from "better-sqlite3";
import { holdfast } from "holdfast";
import type { Bed, Filling, Place } from "./bed.js";
import { fillEmptyLanes } from "./fill-lanes.js";
import { fillSqlite } from "./fill-sqlite.js";
import { SQLITE } from "./limits.js";

/** Files in one folder: a template for each filling, and a copy of the template for each trial. */
export function sqliteBed(folder: string): Bed {
  const templates = new Map<string, Promise<string>>();
  let made = 0;

  function nowhere(): Place {
    const file = join(folder, `trial-${++made}.db`);
    return {
      url: `sqlite:${file}`,
      remove: async () => {
        for (const ending of ["", "-wal", "-shm"]) rmSync(file + ending, { force: true });
      },
    };
  }

  async function makeTemplate(filling: readonly Filling[]): Promise<string> {
    const file = join(folder, `template-${++made}.db`);
    await migrated(`sqlite:${file}`);
    for (const { kind, count } of filling) if (kind === "empty lanes") await fillEmptyLanes(`sqlite:${file}`, count);
    fillSqlite(
      file,
      filling.filter(({ kind }) => kind !== "empty lanes"),
    );
    return file;
  }

  return {
    store: "sqlite",
    limits: SQLITE,
    facts,
    nowhere,
    async place(filling) {
      const wanted = filling.filter(({ count }) => count > 0);
      const key = JSON.stringify(wanted);
      const template = templates.get(key) ?? makeTemplate(wanted);
      templates.set(key, template);
      const place = nowhere();
      const file = place.url.slice("sqlite:".length);
      copyFileSync(await template, file, constants.COPYFILE_FICLONE);
      flush(file);
      return place;
    },
    async hold({ url }) {
      const db = new Database(url.slice("sqlite:".length), { readonly: true });
      db.exec("BEGIN");
      db.prepare("SELECT count(*) FROM holdfast_counts").get();
      return async () => void db.close();
    },
    close: async () => {},
  };
}

async function migrated(url: string): Promise<void> {
  const hf = await holdfast({ store: url, logger: false });
  await hf.close();
}

/** Syncs the copy, so that writing it back to disk does not slow down the syncs of the trial. */
function flush(file: string): void {
  const handle = openSync(file, "r+");
  fsyncSync(handle);
  closeSync(handle);
}

function facts(): Record<string, string> {
  const db = new Database(":memory:");
  const version = db.prepare("SELECT sqlite_version()").pluck().get() as string;
  db.close();
  const driver = createRequire(import.meta.url)("better-sqlite3/package.json") as { version: string };
  return { sqlite: version, "better-sqlite3": driver.version, durability: "WAL, synchronous = FULL" };
}
