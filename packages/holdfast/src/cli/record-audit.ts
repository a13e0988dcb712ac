import { hostname, userInfo } from "node:os";
import type { AuditEntryDraft } from "../engine/client/audit.js";
import type { Holdfast } from "../engine/client/holdfast.js";
import type { Context } from "./parse/command.js";
import { openSilentClient, withConfiguredStore } from "./store/open.js";
import { pendingMigrationsOf } from "./store/schema-check.js";

/** The actions that commands record themselves, not through the admin API. */
export const CLI_ACTIONS = ["config.set", "config.unset", "jobs.import", "store.migrate"] as const;

type AuditEntry = Omit<AuditEntryDraft, "actor" | "action"> & { action: (typeof CLI_ACTIONS)[number] };

/** The user of the command line, for the audit log. */
export function cliActor(): string {
  let name = "unknown";
  try {
    name = userInfo().username;
  } catch {
    // In a container, the user may have no name.
  }
  return `cli:${name}@${hostname()}`.slice(0, 200);
}

/** Records a change that a command makes without the admin API, which records its own. */
export async function recordAuditEntry(hf: Holdfast, entry: AuditEntry): Promise<void> {
  const { recordAudit } = await import("../engine/client/audit.js");
  const { engineOf } = await import("../engine/client/holdfast.js");
  await recordAudit(engineOf(hf), { actor: cliActor(), ...entry });
}

// A change of the configuration file should not wait long for an unresponsive database.
const TIMEOUT_MS = 3_000;

/**
 * Records a change of the configuration file, which is already made. It is recorded only if the store exists and its
 * schema is up to date. An unreachable store is a warning, not a failure.
 */
export async function recordIfStoreExists(context: Context, entry: AuditEntry): Promise<void> {
  const recorded = recordInStore(context, entry).catch((error: unknown) => error as Error);
  const timeout = new Promise<Error>((resolve) => {
    setTimeout(() => resolve(new Error(`the store did not respond within ${TIMEOUT_MS / 1_000}s`)), TIMEOUT_MS).unref();
  });
  const problem = await Promise.race([recorded, timeout]);
  if (problem !== undefined) context.output.warn(`the change is not in the audit log: ${problem.message}`);
}

async function recordInStore(context: Context, entry: AuditEntry): Promise<undefined> {
  await withConfiguredStore(context, "read", async (store) => {
    if ((await pendingMigrationsOf(store)).length > 0) return;
    await recordAuditEntry(await openSilentClient(context, store), entry);
  });
}
