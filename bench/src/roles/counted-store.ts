import type { Store } from "holdfast";
import type { Sent } from "../dashboard/sent.js";
import { openStore } from "../open-store.js";

interface Counted {
  store: Store;
  sent: () => Sent;
}

/** Opens a store, and counts what this process sends to it from now on. */
export async function openCounted(url: string): Promise<Counted> {
  const { store, queries } = await open(url);
  const calls = countCalls(store);
  return { store, sent: () => ({ calls: calls(), queries: queries() }) };
}

/** `queries`: how many its database was sent so far. */
async function open(url: string): Promise<{ store: Store; queries: () => number }> {
  if (url.startsWith("sqlite:")) {
    const { countThreadStatements } = await import("./sqlite-statements.js");
    const queries = countThreadStatements();
    return { store: await openStore(url), queries };
  }
  if (url.startsWith("postgres:")) {
    const { countQueries } = await import("./postgres-queries.js");
    const queries = countQueries();
    return { store: await openStore(url), queries };
  }
  const { meteredStore, noUnits } = await import("./meter.js");
  const units = noUnits();
  return { store: meteredStore(url, units), queries: () => units.requests };
}

/** Counts the calls that return a promise: all but those about listeners and transactions. */
function countCalls(store: Store): () => number {
  let calls = 0;
  const methods = new Map<string, (...given: unknown[]) => unknown>();
  for (let from: object = store; from !== Object.prototype; from = Object.getPrototypeOf(from) as object) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(from))) {
      if (typeof value === "function" && name !== "constructor" && !methods.has(name))
        methods.set(name, value as (...given: unknown[]) => unknown);
    }
  }
  for (const [name, method] of methods) {
    const counted = (...given: unknown[]): unknown => {
      const result = method.apply(store, given);
      if (result instanceof Promise) calls++;
      return result;
    };
    Object.assign(store, { [name]: counted });
  }
  return () => calls;
}
