import { UnknownStoreError } from "./errors.js";

/** The stores that an address can name. */
export type StoreKind = "sqlite" | "postgres" | "dynamodb";

const KINDS: ReadonlyMap<string, StoreKind> = new Map([
  ["sqlite", "sqlite"],
  ["postgres", "postgres"],
  ["postgresql", "postgres"],
  ["dynamodb", "dynamodb"],
]);

/** Which store an address names, by what stands before its first colon. */
export function storeKindOf(url: string): StoreKind {
  const kind = KINDS.get(url.slice(0, Math.max(0, url.indexOf(":"))));
  if (kind === undefined) throw new UnknownStoreError(url);
  return kind;
}
