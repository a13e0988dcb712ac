import { isThenable } from "../callbacks.js";
import { DEFAULTS, LIMITS } from "../defaults.js";
import { durationMs, type Duration } from "../duration.js";
import { InvalidOptionError } from "../errors.js";
import { optionKeys, refuseUnknownIn, show } from "../options.js";

/** The delay between attempts: `base × factor^n`, at most `max`, where n is the number of previous retries. */
export interface BackoffOptions {
  /** The delay before the first retry. Default 30 s, or `max` if that is shorter. */
  base?: Duration;
  /** Default 2. */
  factor?: number;
  /** The longest delay. Default 15 min, or `base` if that is longer. If both are set, `max` must not be shorter than `base`. */
  max?: Duration;
  /** Random variation of the delay: a fraction (`0.1` is ±10 %), or a duration (`"1s"` adds up to one second). `0`: none. */
  jitter?: number | string;
}

export interface RetryOptions {
  /** Total attempts, including the first. */
  maxAttempts?: number;
  /**
   * Options of exponential backoff, or a function that returns the delay after the given attempt (1, 2, …) failed, or a promise
   * of it. If the function throws, does not return a duration or takes longer than 10 s, an error is logged and the delay is
   * 30 s.
   */
  backoff?: BackoffOptions | ((attempt: number, error: unknown) => Duration | PromiseLike<Duration>);
}

/** The delay after attempt `attempt` failed with `error`. */
export type Backoff = (attempt: number, error: unknown, random: () => number) => number | Promise<number>;

const RETRY_FIELDS: ReadonlySet<string> = optionKeys<RetryOptions>({ maxAttempts: true, backoff: true });

/** For an option of `retry` that was given next to it. */
export function asRetryField(key: string): string | null {
  return RETRY_FIELDS.has(key) ? `retry.${key}` : null;
}
const BACKOFF_FIELDS: ReadonlySet<string> = optionKeys<BackoffOptions>({
  base: true,
  factor: true,
  max: true,
  jitter: true,
});

export function readRetry(options: RetryOptions = {}): { maxAttempts: number; backoff: Backoff } {
  const asBackoffField = (key: string): string | null => (BACKOFF_FIELDS.has(key) ? `retry.backoff.${key}` : null);
  if ((options as unknown) === false)
    throw new InvalidOptionError("retry", "is false; for a single attempt pass { maxAttempts: 1 }");
  refuseUnknownIn(options, RETRY_FIELDS, "retry", asBackoffField);
  return {
    maxAttempts: readMaxAttempts(options.maxAttempts, "retry.maxAttempts"),
    backoff: readBackoff(options.backoff),
  };
}

/** Merges the options of a job type over the client's defaults, field by field, including the fields of `backoff`. */
export function mergeRetry(own: RetryOptions, defaults: RetryOptions): RetryOptions {
  const merged = { ...defaults, ...definedFields(own) };
  if (typeof own.backoff === "object" && typeof defaults.backoff === "object") {
    merged.backoff = mergeBackoff(definedFields(own.backoff), defaults.backoff);
  }
  return merged;
}

/** If the type's base exceeds the client's max, or its max is below the client's base, the type's value is used for both. */
function mergeBackoff(own: BackoffOptions, defaults: BackoffOptions): BackoffOptions {
  const merged = { ...defaults, ...own };
  const { base, max } = merged;
  if (base === undefined || max === undefined || durationMs(base, "base") <= durationMs(max, "max")) return merged;
  if (own.max === undefined) return { ...merged, max: base };
  return own.base === undefined ? { ...merged, base: max } : merged;
}

/** Drops fields whose value is undefined. */
function definedFields<Options extends object>(options: Options): Partial<Options> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Partial<Options>;
}

/** Checks the options once, when the job type is defined, and returns the function that computes delays. */
export function readBackoff(options: RetryOptions["backoff"], field = "retry.backoff"): Backoff {
  if (typeof options === "function") {
    return (attempt, error) => {
      const delay: unknown = options(attempt, error);
      if (!isThenable(delay)) return durationMs(delay as Duration, field);
      return Promise.resolve(delay).then((resolved) => durationMs(resolved as Duration, field));
    };
  }
  if (options !== undefined) refuseUnknownIn(options, BACKOFF_FIELDS, field);
  const base = durationMs(options?.base ?? DEFAULTS.backoff.base, `${field}.base`);
  // The default max must not shorten the given base.
  const max =
    options?.max === undefined ? Math.max(base, DEFAULTS.backoff.max) : durationMs(options.max, `${field}.max`);
  if (options?.base !== undefined && base > max) {
    throw new InvalidOptionError(
      `${field}.base`,
      `${show(options.base)} is longer than max, ${show(options.max)}; raise max`,
    );
  }
  const factor = options?.factor ?? DEFAULTS.backoff.factor;
  if (!Number.isFinite(factor) || factor < 1)
    throw new InvalidOptionError(`${field}.factor`, "must be a number of at least 1");
  const withJitter = readJitter(options?.jitter ?? DEFAULTS.backoff.jitter, `${field}.jitter`);
  return (attempt, _error, random) => {
    // 0 × Infinity is NaN, and a job with that due time would never run.
    const exact = base === 0 ? 0 : Math.min(base * factor ** (attempt - 1), max);
    return Math.round(Math.min(withJitter(exact, random()), max));
  };
}

function readJitter(jitter: number | string, field: string): (exact: number, random: number) => number {
  if (typeof jitter === "string") {
    const max = durationMs(jitter, field);
    return (exact, random) => exact + max * random;
  }
  if (!(jitter >= 0 && jitter <= 1))
    throw new InvalidOptionError(field, 'must be a fraction from 0 to 1, or a duration like "1s"');
  return (exact, random) => exact * (1 + jitter * (2 * random - 1));
}

export function readMaxAttempts(value: number | undefined, field = "maxAttempts"): number {
  const attempts = value ?? DEFAULTS.maxAttempts;
  if (!Number.isInteger(attempts) || attempts < 1 || attempts > LIMITS.maxAttempts) {
    throw new InvalidOptionError(field, `${show(value)} is not a whole number from 1 to ${LIMITS.maxAttempts}`);
  }
  return attempts;
}
