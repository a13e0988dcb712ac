import {
  cancelled,
  completed,
  failed,
  deferUnknownType,
  rejectUnrun,
  released,
  type LeasedJob,
} from "../engine/worker/decide-outcome.js";
import { NotRetryable } from "../errors.js";
import { STALE_FINGERPRINT } from "../job/fingerprint.js";
import type { JobUpdate, NewJob, Outcome } from "../store.js";
import type { JobDraft, OutcomeDraft, UpdateDraft } from "./model-commands.js";

/** The job as a client would enqueue it. `n` makes its input unique. */
export function newJobOf(draft: JobDraft, id: string, n: number, now: number): NewJob {
  const { type, queue, priority, user, maxAttempts, delayMs, tags, unique, inputBytes, parent, settings } = draft;
  const runAt = draft.runAtFromNow === null ? null : now + draft.runAtFromNow;
  const expiresAt = draft.expiresInMs === null ? null : now + draft.expiresInMs;
  const input = JSON.stringify({ n, padding: "x".repeat(inputBytes) });
  const trace = n % 2 === 0 ? null : JSON.stringify({ traceparent: `trace of ${n}` });
  const rest = { delayMs, tags, unique, runAt, expiresAt, input, schedule: null, parent, settings, trace };
  return { id, type, queue, priority, user, maxAttempts, ...rest };
}

export function updateOf(draft: UpdateDraft, id: string, now: number): JobUpdate {
  const { queue, priority, inputBytes, inputType, tags, maxAttempts, expiry, due } = draft;
  return {
    id,
    ...(queue !== null && { queue }),
    ...(priority !== null && { priority }),
    ...(inputBytes !== null && { input: JSON.stringify({ changed: now, padding: "x".repeat(inputBytes) }) }),
    ...(inputType !== null && { inputType }),
    ...(tags !== null && { tags }),
    ...(maxAttempts !== null && { maxAttempts }),
    ...(expiry !== null && { expiresAt: expiry.inMs === null ? null : now + expiry.inMs }),
    ...(due !== null && { due: { runAt: due.fromNow === null ? null : now + due.fromNow, delayMs: due.delayMs } }),
  };
}

const [FIRST, SECOND] = ["00000000000000aa", "00000000000000bb"];
/** The fingerprints of errors. */
export const FINGERPRINTS: readonly string[] = [STALE_FINGERPRINT, FIRST, SECOND];

/** The outcome that the engine would report, with a fingerprint if its handler failed. */
export function outcomeOf(lease: LeasedJob, draft: OutcomeDraft, now: number): Outcome {
  const outcome = attemptOutcome(lease, draft, now);
  if (outcome.error === null || (draft.how !== "fail" && draft.how !== "give up")) return outcome;
  const fingerprint = draft.how === "fail" && draft.started ? FIRST : SECOND;
  return { ...outcome, error: { ...outcome.error, fingerprint } };
}

/** The outcome that the engine would report. The retry policy is the real one; only the handler's result is made up. */
function attemptOutcome(lease: LeasedJob, draft: OutcomeDraft, now: number): Outcome {
  const known = { ...lease, startedAt: lease.startedAt ?? (draft.started ? now : null) };
  const policy = {
    backoff: () => draft.delayMs,
    random: () => 0,
    now,
    redact: <Value>(value: Value): Value => value,
    onInvalidBackoff: () => {},
  };
  switch (draft.how) {
    case "complete":
      return completed(known, JSON.stringify({ by: lease.worker }));
    case "fail":
      return failed(
        known,
        Object.assign(new Error("it broke", { cause: "a wire" }), { status: 503 }),
        policy,
      ) as Outcome;
    case "give up":
      return failed(known, new NotRetryable("it is no use"), policy) as Outcome;
    case "cancelled":
      return cancelled(known, now);
    case "release":
      return released(known, now, draft.delayMs);
    case "triage":
      return rejectUnrun(lease, now) ?? completed(known, "{}");
    case "no-handler":
      return deferUnknownType(known, now, { deadLetterNow: false, hasRecentHandler: true });
  }
}
