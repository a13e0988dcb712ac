import type { ErrorReporter, JobFailure } from "../engine/events/reports.js";
import { watchResult } from "../callbacks.js";
import { InvalidOptionError } from "../errors.js";
import { optionKeys, refuseUnknown, show } from "../options.js";
import { truncate } from "../job/json.js";
import { codeOf, nameOf } from "../job/thrown.js";

/** The functions used of `@sentry/node` or another Sentry SDK. */
export interface SentryClient {
  withScope(use: (scope: SentryScope) => void): void;
  captureException(error: unknown): unknown;
  flush?(timeoutMs?: number): PromiseLike<boolean>;
}

/** The methods used of a Sentry scope. */
export interface SentryScope {
  setTag(name: string, value: string | number): unknown;
  setContext(name: string, context: Record<string, unknown> | null): unknown;
  setLevel(level: "error" | "warning"): unknown;
  setUser(user: { id: string } | null): unknown;
  setFingerprint(fingerprint: string[]): unknown;
}

export interface SentryOptions {
  /** Report every failed attempt (default), or only failures that dead-letter a job. */
  when?: "always" | "dead";
  /**
   * How failures are grouped into issues. Default: by type, class of the error, and whether the job is dead. `null`: Sentry's own
   * grouping.
   */
  fingerprint?: ((failure: JobFailure) => string[]) | null;
}

const FIELDS: ReadonlySet<string> = optionKeys<SentryOptions>({ when: true, fingerprint: true });
const FLUSH_MS = 2_000;
// Sentry truncates large events at places that it chooses itself.
const MAX_PAYLOAD_LENGTH = 8_000;

/**
 * Reports failures to Sentry through the SDK that your application has initialised.
 *
 * ```ts
 * import * as Sentry from "@sentry/node";
 *
 * Sentry.init({ dsn: process.env.SENTRY_DSN });
 * const hf = await holdfast({ store, jobs, reporter: sentry(Sentry), redact: ["**.password"] });
 * ```
 */
export function sentry(client: SentryClient, options: SentryOptions = {}): ErrorReporter {
  refuseUnknown(options, FIELDS, "sentry");
  const { when = "always", fingerprint = byTypeAndError } = options;
  if (!["always", "dead"].includes(when))
    throw new InvalidOptionError("when", `${show(when)} is none of "always", "dead"`);
  if (fingerprint !== null && typeof fingerprint !== "function") {
    throw new InvalidOptionError("fingerprint", "must be a function or null");
  }
  for (const call of ["withScope", "captureException"] as const) {
    if (typeof client?.[call] !== "function") {
      throw new InvalidOptionError(
        "sentry",
        `${show(client)} has no function ${call}; pass the imported @sentry/node module`,
      );
    }
  }
  return {
    report(failure) {
      if (when === "dead" && !failure.final) return;
      const send = (parts: string[] | null): void =>
        client.withScope((scope) => {
          describe(scope, failure);
          if (parts !== null) scope.setFingerprint(parts);
          client.captureException(failure.error);
        });
      let parts: string[] | null;
      try {
        parts = fingerprint === null ? null : readFingerprint(fingerprint(failure));
      } catch (error) {
        // Report the failure anyway; the caller logs the error of the function.
        send(byTypeAndError(failure));
        throw error;
      }
      send(parts);
    },
    async flush() {
      await client.flush?.(FLUSH_MS);
    },
  };
}

function describe(scope: SentryScope, { kind, job, input, final, worker }: JobFailure): void {
  scope.setLevel(final ? "error" : "warning");
  scope.setTag("job.id", job.id);
  scope.setTag("job.type", job.type);
  scope.setTag("job.queue", job.queue);
  scope.setTag("job.attempt", job.attempt);
  if (job.user !== null) scope.setUser({ id: job.user });
  scope.setContext("job", {
    id: job.id,
    type: job.type,
    queue: job.queue,
    attempt: job.attempt,
    max_attempts: job.maxAttempts,
    tags: job.tags.join(", "),
    failure: kind,
    final,
    worker,
    // As a string, because Sentry truncates deeply nested values.
    payload: payloadOf(input),
  });
}

function readFingerprint(given: unknown): string[] {
  if (Array.isArray(given) && given.every((part) => typeof part === "string")) return given;
  watchResult(given, () => {});
  throw new InvalidOptionError("fingerprint", `must return an array of strings, but returned ${show(given)}`);
}

function payloadOf(input: unknown): string {
  return truncate(JSON.stringify(input) ?? "null", MAX_PAYLOAD_LENGTH);
}

/**
 * Groups by class of the error, because messages differ between jobs (ids, addresses). A dead job must be a different issue than a
 * job that will be retried: Sentry's SDK drops an event that equals the previous one.
 */
function byTypeAndError({ kind, job, error, final }: JobFailure): string[] {
  return ["holdfast", job.type, kind === "attempt" ? kindOf(error) : kind, ...(final ? ["dead"] : [])];
}

function kindOf(error: unknown): string {
  const name = nameOf(error);
  const code = codeOf(error);
  return name === null ? "thrown value" : [name, ...(code === null ? [] : [code.slice(0, 100)])].join(" ");
}
