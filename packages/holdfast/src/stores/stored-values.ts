import type { JobSettings, SlotReason, UniqueKey } from "../store.js";

/**
 * The scope of a unique key as stores store it. `forever` is stored as `ever`, as in early versions, so that processes of
 * different versions can share a store during a deployment.
 */
export type StoredScope = Exclude<UniqueKey["scope"], "forever"> | "ever";

export function storedScope(scope: UniqueKey["scope"]): StoredScope {
  return scope === "forever" ? "ever" : scope;
}

export function readScope(stored: StoredScope): UniqueKey["scope"] {
  return stored === "ever" ? "forever" : stored;
}

/** The reason of a slot. Early versions stored "by hand" for `manual`. */
export function readReason(stored: string | null): SlotReason | null {
  return (stored === "by hand" ? "manual" : stored) as SlotReason | null;
}

/** The settings of a job, stored as JSON. A damaged row must not stop the other jobs of its queue. */
export function readSettings(stored: string | null): JobSettings | null {
  if (stored === null) return null;
  try {
    const settings: unknown = JSON.parse(stored);
    return typeof settings === "object" ? settings : null;
  } catch {
    return null;
  }
}
