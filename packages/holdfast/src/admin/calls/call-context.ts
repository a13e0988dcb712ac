import type { Filter } from "../../engine/client/filter.js";
import type { Holdfast } from "../../engine/client/holdfast.js";
import type { InputView } from "../../engine/client/list-jobs.js";
import { withSubject } from "../../errors.js";
import type { Redactor } from "../../redact.js";
import type { Restorer } from "../../restore.js";
import type { Caller } from "../auth/credentials.js";
import type { Identity } from "../auth/identity.js";
import type { JobConditions } from "../contract/api-types.js";
import { ApiError } from "../http/api-error.js";
import type { LaneLimit } from "./lane-limit.js";
import type { Operations } from "./operations.js";
import type { RecentStats } from "./recent-stats.js";

/** What the handler of a call needs besides its input. */
export interface CallContext {
  hf: Holdfast;
  identity: Identity;
  operations: Operations;
  lanes: LaneLimit;
  redact: Redactor;
  /** Replaces redaction placeholders in a submitted payload by the stored values. */
  restore: Restorer;
  caller: Caller;
  /** The counts of the store. */
  stats: RecentStats;
  /** How old a result may be, in milliseconds. */
  maxAgeMs: number;
  /** Resolves when the call is in the audit log. */
  startRecorded: Promise<void>;
}

/** The conditions of a call as a filter of the client. */
export function filterOf({ keyScope, ...others }: JobConditions): Filter {
  if (keyScope === undefined) return others;
  if (others.key === undefined) throw invalidField("keyScope", "requires key");
  return { ...others, key: { key: others.key, scope: keyScope } };
}

/** A filter by input compares what callers see: otherwise they could find out redacted values by a search. */
export function visibleInput({ redact }: Pick<CallContext, "redact">): InputView {
  return (input) => redact({ input }).input;
}

/** Replaces redaction placeholders in the input by the stored values. Throws if a placeholder has no stored value. */
export function withRestoredInput<Body extends { input?: unknown }>(
  restore: Restorer,
  body: Body,
  stored: { input?: unknown },
): Body {
  if (body.input === undefined) return body;
  const { input } = restore({ input: body.input }, { input: stored.input }) as { input: unknown };
  return { ...body, input };
}

export function invalidField(path: string, message: string): ApiError {
  return new ApiError(400, "INVALID_REQUEST", withSubject(path, message), { issues: [{ path, message }] });
}
