/** Callers choose types and queues, so only this many are reported by name, and all others together as `OTHER`. */
export const MAX_NAMES = 200;
export const OTHER = "other";

/** Whether some names are counted as `OTHER`, so that a missing name may still have jobs. */
export function isCut(counts: Readonly<Record<string, unknown>>): boolean {
  return Object.keys(counts).length > MAX_NAMES;
}
