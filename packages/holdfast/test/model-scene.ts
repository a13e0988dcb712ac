import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock } from "#src/clock.js";
import { openStore } from "#src/engine/open-store.js";
import type { Store } from "#src/store.js";
import type { ComparedStore } from "#src/testing/model-run.js";

export async function inMemory(clock: Clock): Promise<ComparedStore> {
  const store = await openStore("sqlite::memory:", { clock });
  await store.migrate();
  const again = (): Promise<never> => Promise.reject(new Error("a database in memory has one handle"));
  return { store, again, address: null, dispose: () => Promise.resolve() };
}

export async function inFile(clock: Clock): Promise<ComparedStore> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-model-"));
  const address = `sqlite:${join(folder, "jobs.db")}`;
  const again = async (): Promise<Store> => {
    const store = await openStore(address, { clock });
    await store.migrate();
    return store;
  };
  return { store: await again(), again, address, dispose: () => rm(folder, { recursive: true }) };
}
