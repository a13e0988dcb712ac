import type { ScheduleRecord } from "../../store.js";
import { parseStored } from "../client/job-view.js";
import type { Definition } from "./schedule-definition.js";

/**
 * A schedule that code defines is stored as three parts: the effective definition, the definition in code, and the changes made
 * at run time. A large input is stored once: the second and third part leave it out if it equals that of the first.
 */
interface PackedChanges extends Partial<Omit<Definition, "input">> {
  /** The effective input was set at run time. */
  ownInput?: true;
}

export function packCode(code: Definition, input: string): string {
  const { input: inCode, ...rest } = code;
  return JSON.stringify(inCode === input ? rest : { ...rest, input: inCode });
}

/** The definition in code, or null if code does not define the schedule. */
export function codeOf(stored: ScheduleRecord): Definition | null {
  if (stored.defined === null) return null;
  return { input: stored.input, ...(parseStored(stored.defined) as Omit<Definition, "input">) };
}

export function packChanges({ input, ...rest }: Partial<Definition>): string {
  const packed: PackedChanges = input === undefined ? rest : { ...rest, ownInput: true };
  return JSON.stringify(packed);
}

export function changesOf(stored: ScheduleRecord): Partial<Definition> {
  const { ownInput, ...rest }: PackedChanges = parseStored(stored.changes) ?? {};
  return ownInput === true ? { ...rest, input: stored.input } : rest;
}

/** The changes that still differ from the definition. */
export function differences(definition: Definition, changes: Partial<Definition>): Partial<Definition> {
  const differs = (field: keyof Definition): boolean => field in changes && !isEqual(changes, definition, field);
  // Cron, time zone and interval belong together: if code switches from one to the other, half of a change must not remain.
  const timing = differs("cron") || differs("everyMs");
  const kept = (Object.keys(changes) as (keyof Definition)[]).filter((field) => {
    if (field === "cron" || field === "everyMs") return timing;
    if (field === "timezone") return timing || (definition.cron !== null && differs(field));
    // The input was validated for its job type, and may be invalid for another.
    if (field === "input") return differs(field) || differs("type");
    // A schedule that was disabled stays disabled, even if code disables it too for a while.
    if (field === "enabled") return changes.enabled === false || differs(field);
    return differs(field);
  });
  return Object.fromEntries(kept.map((field) => [field, changes[field]]));
}

/** Names of the options, where they differ from the fields; null if no option sets the field. */
const NAMES: Readonly<Partial<Record<keyof Definition, string | null>>> = {
  type: "job",
  everyMs: "every",
  jitterMs: "jitter",
  expiresAfterMs: null,
};
const TIMING: readonly (keyof Definition)[] = ["cron", "timezone", "everyMs"];

/** The options changed at run time, compared with the definition in code. */
export function changedOptions(stored: ScheduleRecord): string[] {
  const code = codeOf(stored) ?? {};
  return (
    (Object.keys(changesOf(stored)) as (keyof Definition)[])
      // If a cron expression was replaced by an interval, or the other way round, only the new one is listed.
      .filter((field) => !isEqual(stored, code, field) && (stored[field] !== null || !TIMING.includes(field)))
      .map((field) => (NAMES[field] === undefined ? field : NAMES[field]))
      .filter((name) => name !== null)
  );
}

function isEqual(a: Partial<Definition>, b: Partial<Definition>, field: keyof Definition): boolean {
  return JSON.stringify(a[field]) === JSON.stringify(b[field]);
}
