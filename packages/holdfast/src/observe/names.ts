/** Types and queues come from callers: so many are told by name, and the rest as one. */
export const MOST_NAMES = 200;
export const OTHER = "other";

/** Whether counts by name leave some to the rest, so that one that is missing may have jobs. */
export function isCut(counts: Readonly<Record<string, unknown>>): boolean {
  return Object.keys(counts).length > MOST_NAMES;
}
