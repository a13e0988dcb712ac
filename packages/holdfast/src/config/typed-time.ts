import { durationMs, instantMs } from "../duration.js";
import { InvalidOptionError } from "../errors.js";
import { show } from "../options.js";

/** Accepted forms of a time on the command line: only an ISO time, or also a duration before or after now. */
export type TypedTime = "instant" | "past" | "future";

const SIGNS: Readonly<Record<TypedTime, number>> = { instant: 0, past: -1, future: 1 };

const LOOKS_LIKE_A_DATE = /^\d{4}-\d\d-\d\d(?:$|[T ])/;

/** Descriptions that complete "is not …". */
export const TIME_DESCRIPTIONS: Readonly<Record<TypedTime, string>> = {
  instant: "an ISO time such as 2026-01-31T08:00:00Z",
  past: "an ISO time such as 2026-01-31T08:00:00Z, or an age such as 7d",
  future: "an ISO time such as 2026-01-31T08:00:00Z, or a duration from now such as 2h",
};

/** Parses a time from the command line to milliseconds since 1970. Throws `InvalidOptionError`. */
export function typedTimeMs(text: string, time: TypedTime, field = "time"): number {
  const sign = SIGNS[time];
  const isLength = sign !== 0 && /^\d+(?:\.\d+)?\s*[a-z]/.test(text);
  try {
    return isLength ? Date.now() + sign * durationMs(text, field) : instantMs(text, field);
  } catch (error) {
    // For something that looks like a date, the original error is better: it has no zone, or the day does not exist.
    if (!(error instanceof InvalidOptionError) || LOOKS_LIKE_A_DATE.test(text)) throw error;
    throw new InvalidOptionError(field, `${show(text)} is not ${TIME_DESCRIPTIONS[time]}`);
  }
}
