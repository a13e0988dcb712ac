import { hideSecret } from "../../config/index.js";
import type { Holdfast } from "../../engine/client/holdfast.js";
import type { Store } from "../../store.js";
import { recordAuditEntry } from "../record-audit.js";
import type { Context } from "../parse/command.js";
import { openSilentClient } from "./open.js";
import { pendingMigrationsOf } from "./schema-check.js";

/**
 * Opens a client, which migrates the store. Returns the titles of the migrations that were pending, and records them in
 * the audit log. `open` creates the client; by default it has no jobs and no log.
 */
export async function openMigrated(
  context: Context,
  store: Store,
  open: (store: Store) => Promise<Holdfast> = (given) => openSilentClient(context, given),
): Promise<{ hf: Holdfast; applied: string[] }> {
  const applied = (await pendingMigrationsOf(store)).map(({ title }) => title);
  const hf = await open(store);
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
