import type { CalendarScope, UniqueOptions } from "../../job/enqueue-types.js";
import { LIMITS } from "../../defaults.js";
import { durationMs, type Duration } from "../../duration.js";
import { InvalidOptionError } from "../../errors.js";
import { optionKeys, readName, refuseUnknownIn, show } from "../../options.js";
import { CALENDAR_UNITS, calendarPeriod } from "../../schedule/calendar.js";
import { readZone } from "../../schedule/zone.js";
import type { UniqueKey } from "../../store.js";
import { PERIOD_SEPARATOR, USER_SEPARATOR } from "../../job/unique-key.js";

/** How long a key is held. */
type KeyScope = NonNullable<UniqueOptions["scope"]>;

/** A key of a call that finds it. Only a calendar scope is part of the key; the others change nothing. */
interface KeyAndScope {
  key: string;
  scope: KeyScope;
}

const UNIQUE_KEYS: ReadonlySet<string> = optionKeys<UniqueOptions>({ key: true, scope: true, onConflict: true });
const KEY_KEYS: ReadonlySet<string> = optionKeys<KeyAndScope>({ key: true, scope: true });
const PERIOD_KEYS: ReadonlySet<string> = optionKeys<{ period: Duration }>({ period: true });
const CALENDAR_KEYS: ReadonlySet<string> = optionKeys<CalendarScope>({ calendar: true, zone: true });
// Calendar keys are held a day longer than their period, because a process whose clock is slow still enqueues for the previous
// period. This also covers daylight saving changes.
const CLOCK_SKEW_MARGIN_MS = 86_400_000;

/** Checks the option `unique` and returns the stored form of the key. */
export function readUnique(unique: string | UniqueOptions, user: string | undefined, now: number): UniqueKey {
  const options: UniqueOptions = typeof unique === "string" ? { key: unique } : unique;
  refuseUnknownIn(options, UNIQUE_KEYS, "unique");
  const onConflict = options.onConflict ?? "keep";
  if (!["keep", "replace", "reject"].includes(onConflict)) {
    throw new InvalidOptionError("unique.onConflict", `${show(onConflict)} is none of "keep", "replace", "reject"`);
  }
  const given = readName(options.key, typeof unique === "string" ? "unique" : "unique.key", LIMITS.keyLength);
  return { ...readScope(options.scope ?? "live", storedKey(given, user), now, "unique.scope"), onConflict };
}

function readScope(
  scope: KeyScope,
  key: string,
  now: number,
  field: string,
): Pick<UniqueKey, "key" | "scope" | "periodMs"> {
  if (typeof scope === "object" && scope !== null) {
    return "calendar" in scope
      ? calendarKey(scope, key, now, field)
      : { key, scope: "period", periodMs: readPeriod(scope, field) };
  }
  if (!["waiting", "live", "forever"].includes(scope)) {
    throw new InvalidOptionError(
      field,
      `${show(scope)} is none of "waiting", "live", "forever", { period }, { calendar }`,
    );
  }
  return { key, scope, periodMs: 0 };
}

function readPeriod(scope: { period: Duration }, field: string): number {
  refuseUnknownIn(scope, PERIOD_KEYS, field);
  const periodMs = durationMs(scope.period, `${field}.period`);
  if (periodMs === 0) throw new InvalidOptionError(`${field}.period`, "must be longer than 0");
  return periodMs;
}

/**
 * Each period has a separate key, by this process's clock: if two clocks disagree about midnight, an enqueue for the new day is
 * never a duplicate of one for the old day.
 */
function calendarKey(
  scope: CalendarScope,
  key: string,
  now: number,
  field: string,
): Pick<UniqueKey, "key" | "scope" | "periodMs"> {
  refuseUnknownIn(scope, CALENDAR_KEYS, field);
  if (!CALENDAR_UNITS.includes(scope.calendar)) {
    const units = CALENDAR_UNITS.map((unit) => `"${unit}"`).join(", ");
    throw new InvalidOptionError(`${field}.calendar`, `${show(scope.calendar)} is none of ${units}`);
  }
  // An unset variable must not silently mean UTC.
  if ("zone" in scope && scope.zone === undefined) {
    throw new InvalidOptionError(
      `${field}.zone`,
      'is undefined; name a zone such as "Europe/Berlin", or leave it out for UTC',
    );
  }
  const zone = readZone(scope.zone ?? "UTC", `${field}.zone`);
  const { name, leftMs } = calendarPeriod(scope.calendar, zone, now);
  return { key: `${key}${PERIOD_SEPARATOR}${name}`, scope: "period", periodMs: leftMs + CLOCK_SKEW_MARGIN_MS };
}

/** How long the job must be stored for its key to be held for the whole period. */
export function requiredRetentionMs({ key, periodMs }: UniqueKey): number {
  return key.includes(PERIOD_SEPARATOR) ? periodMs - CLOCK_SKEW_MARGIN_MS : periodMs;
}

/** The stored form of a key that a filter names. */
export function readKey(given: string | KeyAndScope, user: string | undefined, now: number): string {
  if (typeof given === "string") return keyInScope(given, "live", user, now);
  refuseUnknownIn(given, KEY_KEYS, "key");
  return keyInScope(given.key, given.scope, user, now, "key.");
}

/** The stored form of a key with its scope. `within`: where errors say that the two are. */
export function keyInScope(
  key: string,
  scope: KeyScope,
  user: string | undefined,
  now: number,
  within: "" | "key." = "",
): string {
  const stored = storedKey(readName(key, `${within}key`, LIMITS.keyLength), user);
  return readScope(scope, stored, now, `${within}scope`).key;
}

/** Prefixed with the user: one user's jobs cannot hold or replace another user's key. */
function storedKey(key: string, user: string | undefined): string {
  return user === undefined ? key : `${user}${USER_SEPARATOR}${key}`;
}

/** The key as it was passed to `enqueue`. */
export function givenKey(stored: string): string {
  const [key = ""] = stored.slice(stored.indexOf(USER_SEPARATOR) + 1).split(PERIOD_SEPARATOR);
  return key;
}

/**
 * The unique key of a schedule's unfinished job, with which the next job of the schedule must not overlap. It is the key of a user
 * with an empty name, which no user can have.
 */
export function scheduleUnique(name: string): UniqueKey {
  return { key: `${USER_SEPARATOR}schedule:${name}`, scope: "live", periodMs: 0, onConflict: "keep" };
}
