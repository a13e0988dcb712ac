import { hideSecret, showSource, toHoldfastOptions, URL_VARIABLE, type Config } from "../../config/index.js";
import type { Holdfast } from "../../engine/client/holdfast.js";
import type { Store } from "../../store.js";
import type { Context } from "../parse/command.js";

/** Whether a command may create the store. A command that only reads neither creates a SQLite file nor writes to it. */
export type StoreMode = "create" | "read";

/** Opens the configured store without migrating it. */
export async function openConfiguredStore({ config }: Context, access: StoreMode): Promise<Store> {
  const { openStore } = await import("../../engine/open-store.js");
  return openStore(toHoldfastOptions(config).store, { mustExist: access === "read" });
}

/** Calls `use` with the configured store, and closes it afterwards. */
export async function withConfiguredStore<Result>(
  context: Context,
  access: StoreMode,
  use: (store: Store) => Promise<Result>,
): Promise<Result> {
  const store = await openConfiguredStore(context, access);
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

/** A client on an open store, without jobs and without a log. */
export async function openSilentClient({ config }: Context, store: Store): Promise<Holdfast> {
  const { holdfast } = await import("../../engine/client/open-client.js");
  return holdfast({ ...toHoldfastOptions(config), store, logger: false });
}

/** For commands that never call a server. Without the warning, a user who set HOLDFAST_URL would expect the server's data. */
export function warnIfUrlIgnored({ config, env, output }: Context): void {
  if (env[URL_VARIABLE] === undefined || config.sources.store.kind === "flag") return;
  output.warn(`${URL_VARIABLE} is ignored; this command uses the store ${hideSecret(config.values.store)}`);
}

/** Where the address of the store comes from, as a clause for hints. */
export function describeStoreSource({ sources, cwd }: Config): string {
  const { store } = sources;
  if (store.kind === "default") return "no store is configured, so the default is used";
  return `the store is set by ${showSource(store, cwd)}`;
}

/**
 * The `--url` or `--store` of this call, to follow a command in a hint, so that it works as typed. Empty if neither was given.
 * A password in the URL of the store is hidden.
 */
export function connectionFlags({ values, sources }: Config, url?: string): string {
  if (url !== undefined) return ` --url ${quoted(url)}`;
  return sources.store.kind === "flag" ? ` --store ${quoted(hideSecret(values.store))}` : "";
}

/** Quotes a word for the shell if needed. */
function quoted(word: string): string {
  return /^[\w./:@%+,=~-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
