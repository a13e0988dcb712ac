import { existsSync } from "node:fs";
import { hideSecret, showPath, showSource, toHoldfastOptions, type Config } from "../../config/index.js";
import type { AuditEntryDraft } from "../../engine/client/audit.js";
import type { Holdfast } from "../../engine/client/holdfast.js";
import { storeKindOf } from "../../store-address.js";
import type { Store } from "../../store.js";
import { readSqliteFile } from "../../stores/sqlite/file-path.js";
import type { Context } from "../parse/command.js";
import { Failure } from "../errors.js";
import { operator } from "./operator.js";

/** Whether a command may be the first on a store. One that only looks at a SQLite file does not make it, nor need to write it. */
export type Access = "make" | "look";

/** The store that the configuration names, not migrated. */
export async function openBare({ config }: Context, access: Access): Promise<Store> {
  const { openStore } = await import("../../engine/open-store.js");
  return openStore(toHoldfastOptions(config).store, { mustExist: access === "look" });
}

/** The same, closed at the end. */
export async function withBareStore<Answer>(
  context: Context,
  access: Access,
  use: (store: Store) => Promise<Answer>,
): Promise<Answer> {
  const store = await openBare(context, access);
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

/**
 * For commands that look, or change what is there: in the wrong folder they would make a new file and find nothing in it, and
 * by a newer version of the command migrate a database under those who use it.
 */
export async function refusePending({ config }: Context, store: Store): Promise<void> {
  if (sqliteFileOf(config) === MEMORY) return;
  const lack = lackOf(config, await pendingOf(store));
  if (lack !== null) throw new Failure(lack.says, lack);
}

/** The file of a SQLite store; null if the store is another, or in memory. */
function fileOfStore(config: Config): string | null {
  const file = sqliteFileOf(config);
  return file === MEMORY ? null : file;
}

const MEMORY = ":memory:";

function sqliteFileOf(config: Config): string | null {
  const { store } = toHoldfastOptions(config);
  return storeKindOf(store) === "sqlite" ? readSqliteFile(store.slice("sqlite:".length)) : null;
}

/** Why a store cannot be looked into as it is. */
export interface Lack {
  code: "NO_DATABASE" | "NO_TABLES" | "MIGRATIONS_PENDING";
  says: string;
  hint: string;
}

/** What the store lacks, by what is pending: the database, every table, or a migration. Null if nothing. */
export function lackOf(config: Config, pending: readonly string[]): Lack | null {
  if (pending.length === 0) return null;
  const file = fileOfStore(config);
  if (file !== null && !existsSync(file)) {
    return {
      code: "NO_DATABASE",
      says: `there is no database ${showPath(file, config.cwd)}`,
      hint: `${sourceOfStore(config)}; holdfast migrate makes it, as do dev, worker and enqueue`,
    };
  }
  if (!pending.some((each) => FIRST.test(each))) {
    return {
      code: "MIGRATIONS_PENDING",
      says: `the schema of the store is not this version's; pending: ${pending.join(", ")}`,
      hint: "holdfast migrate brings it there",
    };
  }
  const where = file === null ? hideSecret(config.values.store) : showPath(file, config.cwd);
  // What was written last stands in the file beside it, and all of it may.
  const copy =
    "a copy of a database in use lacks what is in its -wal file: copy by VACUUM INTO or .backup of sqlite3; ";
  return {
    code: "NO_TABLES",
    says: `there are no tables of Holdfast in ${where}`,
    hint: `${sourceOfStore(config)}; ${file === null ? "" : copy}holdfast migrate makes new tables`,
  };
}
/** The first step of SQLite's and of PostgreSQL's. */
const FIRST = /^(?:schema version|migration) 1\b/;

/** For commands that ask no server: whoever has set the variable would take what they say for the server's. */
export function tellStoreOnly({ config, env, output }: Context): void {
  if ((env["HOLDFAST_URL"] ?? "") === "" || config.sources.store.kind === "flag") return;
  output.warn(`HOLDFAST_URL is set; this command works on the store ${hideSecret(config.values.store)}`);
}

/** Where the address of the store comes from, in words. */
export function sourceOfStore({ sources, cwd }: Config): string {
  const { store } = sources;
  if (store.kind === "default") return "no store is configured, so it is the default";
  return `its address comes from ${showSource(store, cwd)}`;
}

/**
 * A client on a store that is brought to this version's schema, which is written down where it was not. `open` makes that client,
 * and the schema with it.
 */
export async function migrated(
  context: Context,
  store: Store,
  open: (store: Store) => Promise<Holdfast> = (given) => clientOn(context, given),
): Promise<{ hf: Holdfast; applied: string[] }> {
  const applied = await pendingOf(store);
  const hf = await open(store);
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
  const { holdfast } = await import("../../engine/client/open-client.js");
  return holdfast({ ...toHoldfastOptions(config), store, logger: false });
}

/** Puts into the audit log what a command does by itself, and not by the API, which writes down what it does. */
export async function writeDown(hf: Holdfast, deed: Omit<AuditEntryDraft, "actor">): Promise<void> {
  const { recordAudit } = await import("../../engine/client/audit.js");
  const { engineOf } = await import("../../engine/client/holdfast.js");
  await recordAudit(engineOf(hf), { actor: operator(), ...deed });
}

// Whoever changes a file need not wait long for a database that does not answer.
const REACHED_MS = 3_000;

/**
 * The same for a change of a file, which is done already and needs no store: it is written down where the store is there
 * and has this version's schema. A store that does not answer is told and is no failure; none is made.
 */
export async function writeDownIfThere(context: Context, deed: Omit<AuditEntryDraft, "actor">): Promise<void> {
  const written = writeDownBeside(context, deed).catch((error: unknown) => error as Error);
  const late = new Promise<Error>((resolve) => {
    setTimeout(() => resolve(new Error(`the store did not answer within ${REACHED_MS / 1_000}s`)), REACHED_MS).unref();
  });
  const problem = await Promise.race([written, late]);
  if (problem !== undefined) context.output.warn(`this is not in the audit log: ${problem.message}`);
}

async function writeDownBeside(context: Context, deed: Omit<AuditEntryDraft, "actor">): Promise<undefined> {
  await withBareStore(context, "look", async (store) => {
    if ((await pendingOf(store)).length > 0) return;
    await writeDown(await clientOn(context, store), deed);
  });
}
