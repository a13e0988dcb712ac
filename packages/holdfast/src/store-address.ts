import { UnknownStoreError } from "./errors.js";

/** The stores that a URL can name. */
export type StoreKind = "sqlite" | "postgres" | "dynamodb";

const KINDS: ReadonlyMap<string, StoreKind> = new Map([
  ["sqlite", "sqlite"],
  ["postgres", "postgres"],
  ["postgresql", "postgres"],
  ["dynamodb", "dynamodb"],
]);

/** The store that a URL names, by the part before the first colon. */
export function storeKindOf(url: string): StoreKind {
  const kind = KINDS.get(url.slice(0, Math.max(0, url.indexOf(":"))));
  if (kind === undefined) throw new UnknownStoreError(url);
  return kind;
}
