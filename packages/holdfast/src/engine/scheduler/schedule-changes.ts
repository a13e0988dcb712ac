import type { ScheduleRecord } from "../../store.js";
import { readable } from "../client/job-view.js";
import type { Definition } from "./schedule-definition.js";

/**
 * A schedule that code defines is kept as three things: what it comes to, what code says, and what was changed over that
 * at run time. Large inputs are kept once: where one of the last two has the input of the first, it leaves it out.
 */
interface PackedChanges extends Partial<Omit<Definition, "input">> {
  /** The input in force was chosen at run time. */
  ownInput?: true;
}

export function packCode(code: Definition, input: string): string {
  const { input: inCode, ...rest } = code;
  return JSON.stringify(inCode === input ? rest : { ...rest, input: inCode });
}

/** What code says, or null if it says nothing. */
export function codeOf(stored: ScheduleRecord): Definition | null {
  if (stored.defined === null) return null;
  return { input: stored.input, ...(readable(stored.defined) as Omit<Definition, "input">) };
}

export function packChanges({ input, ...rest }: Partial<Definition>): string {
  const packed: PackedChanges = input === undefined ? rest : { ...rest, ownInput: true };
  return JSON.stringify(packed);
}

export function changesOf(stored: ScheduleRecord): Partial<Definition> {
  const { ownInput, ...rest }: PackedChanges = readable(stored.changes) ?? {};
  return ownInput === true ? { ...rest, input: stored.input } : rest;
}

/** What of `changes` must be kept over `definition`. */
export function differences(definition: Definition, changes: Partial<Definition>): Partial<Definition> {
  const differs = (field: keyof Definition): boolean => field in changes && !isEqual(changes, definition, field);
  // A pattern, its zone and an interval go together: code that moves from one to the other must not meet a half of it.
  const timing = differs("cron") || differs("everyMs");
  const kept = (Object.keys(changes) as (keyof Definition)[]).filter((field) => {
    if (field === "cron" || field === "everyMs") return timing;
    if (field === "timezone") return timing || (definition.cron !== null && differs(field));
    // An input was checked for its job, and may not fit another.
    if (field === "input") return differs(field) || differs("type");
    // Who put a schedule to rest means it, also where code agrees for a while.
    if (field === "enabled") return changes.enabled === false || differs(field);
    return differs(field);
  });
  return Object.fromEntries(kept.map((field) => [field, changes[field]]));
}

/** Fields by the names of their options, where these differ; what no option sets goes unnamed. */
const NAMES: Readonly<Partial<Record<keyof Definition, string | null>>> = {
  type: "job",
  everyMs: "every",
  jitterMs: "jitter",
  expiresAfterMs: null,
};
const TIMING: readonly (keyof Definition)[] = ["cron", "timezone", "everyMs"];

/** The options that were changed over what code says. */
export function changedOptions(stored: ScheduleRecord): string[] {
  const code = codeOf(stored) ?? {};
  return (
    (Object.keys(changesOf(stored)) as (keyof Definition)[])
      // Of a pattern that gave way to an interval, or the other way round, only what is there now is told.
      .filter((field) => !isEqual(stored, code, field) && (stored[field] !== null || !TIMING.includes(field)))
      .map((field) => (NAMES[field] === undefined ? field : NAMES[field]))
      .filter((name) => name !== null)
  );
}

function isEqual(a: Partial<Definition>, b: Partial<Definition>, field: keyof Definition): boolean {
  return JSON.stringify(a[field]) === JSON.stringify(b[field]);
}
