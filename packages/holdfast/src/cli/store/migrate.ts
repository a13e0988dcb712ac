import { hideSecret } from "../../config/index.js";
import type { Holdfast } from "../../engine/client/holdfast.js";
import type { PendingMigration, Store } from "../../store.js";
import { recordAuditEntry } from "../record-audit.js";
import type { Context } from "../parse/command.js";
import { openSilentClient } from "./open.js";

/**
 * Opens a client, which migrates the store. Returns the titles of the migrations that were applied, and records them in
 * the audit log. `open` creates the client; by default it has no jobs and no log.
 */
export async function openMigrated(
  context: Context,
  store: Store,
  open: (store: Store) => Promise<Holdfast> = (given) => openSilentClient(context, given),
): Promise<{ hf: Holdfast; applied: string[] }> {
  const pending = (await store.pendingMigrations?.()) ?? [];
  const hf = await open(store);
  const applied = await appliedOf(store, pending);
  if (applied.length > 0) {
    await recordAuditEntry(hf, {
      action: "store.migrate",
      target: hideSecret(context.config.values.store),
      count: applied.length,
      detail: { applied },
    });
  }
  return { hf, applied };
}

/** An optional migration may not be possible, and is tried again at the next start. */
async function appliedOf(store: Store, pending: readonly PendingMigration[]): Promise<string[]> {
  const hasOptional = pending.some(({ optional }) => optional === true);
  const left = new Set(hasOptional ? (await store.pendingMigrations?.())?.map(({ title }) => title) : []);
  return pending.filter(({ title, optional }) => optional !== true || !left.has(title)).map(({ title }) => title);
}
