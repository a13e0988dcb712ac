import { hideSecret, toHoldfastOptions } from "../config/index.js";
import type { Deed } from "../engine/audit.js";
import type { Holdfast } from "../engine/holdfast.js";
import type { Store } from "../store.js";
import type { Context } from "./command.js";
import { operator } from "./reach.js";

/** The store itself, not migrated; closed at the end. */
export async function withBareStore<Answer>(
  { config }: Context,
  use: (store: Store) => Promise<Answer>,
): Promise<Answer> {
  const { openStore } = await import("../engine/open-store.js");
  const store = await openStore(toHoldfastOptions(config).store);
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

/** What is still to be done before the schema is this version's. Changes nothing. */
export async function pendingOf(store: Store): Promise<string[]> {
  return (await store.pendingMigrations?.()) ?? [];
}

/** A client on a store that is brought to this version's schema, which is written down where it was not. */
export async function migrated(context: Context, store: Store): Promise<{ hf: Holdfast; applied: string[] }> {
  const applied = await pendingOf(store);
  const hf = await clientOn(context, store);
  if (applied.length > 0) {
    await writeDown(hf, {
      action: "store.migrate",
      target: hideSecret(context.config.values.store),
      count: applied.length,
      detail: { applied },
    });
  }
  return { hf, applied };
}

async function clientOn({ config }: Context, store: Store): Promise<Holdfast> {
  const { holdfast } = await import("../engine/holdfast.js");
  return holdfast({ ...toHoldfastOptions(config), store, logger: false });
}

/** Puts into the audit log what a command does by itself, and not by the API, which writes down what it does. */
export async function writeDown(hf: Holdfast, deed: Omit<Deed, "actor">): Promise<void> {
  await hf.audit.record({ actor: operator(), ...deed });
}

// Whoever changes a file need not wait long for a database that does not answer.
const REACHED_MS = 3_000;

/**
 * The same for a change of a file, which is done already and needs no store: it is written down where the store is there
 * and has this version's schema. A store that does not answer is told and is no failure; none is made.
 */
export async function writeDownIfThere(context: Context, deed: Omit<Deed, "actor">): Promise<void> {
  const written = writeDownBeside(context, deed).catch((error: unknown) => error as Error);
  const late = new Promise<Error>((resolve) => {
    setTimeout(() => resolve(new Error(`the store did not answer within ${REACHED_MS / 1_000}s`)), REACHED_MS).unref();
  });
  const problem = await Promise.race([written, late]);
  if (problem !== undefined) context.output.warn(`this is not in the audit log: ${problem.message}`);
}

async function writeDownBeside(context: Context, deed: Omit<Deed, "actor">): Promise<undefined> {
  await withBareStore(context, async (store) => {
    if ((await pendingOf(store)).length > 0) return;
    await writeDown(await clientOn(context, store), deed);
  });
}
