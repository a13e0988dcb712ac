import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Bed, StoreName } from "./bed.js";

/** The bed of each store. Loaded on demand, because each needs its driver. */
const BEDS: Record<StoreName, (folder: string) => Promise<Bed>> = {
  sqlite: async (folder) => (await import("./bed-sqlite.js")).sqliteBed(folder),
  postgres: async (folder) => (await import("./bed-postgres.js")).postgresBed(folder),
  dynamodb: async () => (await import("./bed-dynamodb.js")).dynamoBed(),
};

export function openBed(store: StoreName, folder: string): Promise<Bed> {
  return BEDS[store](folder);
}

/** A folder for this run. It is removed when the process exits, even after an error. */
export function makeFolder(): string {
  const base = resolve(process.env["HOLDFAST_BENCH_DIR"] ?? ".");
  mkdirSync(base, { recursive: true });
  const folder = mkdtempSync(join(base, "holdfast-bench-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  process.once("SIGINT", () => process.exit(130));
  process.once("SIGTERM", () => process.exit(143));
  return folder;
}
