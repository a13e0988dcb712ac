import { DEFAULTS, LIMITS } from "../../defaults.js";
import { durationMs, type Duration } from "../../duration.js";
import { InvalidOptionError } from "../../errors.js";
import type { JobType } from "../../job/job.js";
import { optionKeys, readCount, readName, readQueue, refuseUnknown } from "../../options.js";

/** What `hf.work` takes. */
export interface WorkOptions {
  /** How many handlers run concurrently. Default 4. */
  concurrency?: number;
  /** Default: every queue. */
  queues?: readonly string[];
  /**
   * Only these types. Default: every type of the queues. From its first use on, the store maintains another index for every
   * job; types that need their own workers are better given their own queue.
   */
  types?: readonly (string | JobType)[];
  /** The lease time. Leases are extended while handlers run; once one expires, other workers may claim its job. Default 30 s. */
  lease?: Duration;
  /** How often the worker polls when no wake-up hint arrives. Default 1 s. */
  poll?: Duration;
  /** How long `stop` waits for running handlers before it aborts them. Default 30 s. */
  grace?: Duration;
  /** What to do with a job whose type has no handler here. `wait` (default) defers it for up to 10 minutes, for other workers. */
  unknownType?: "wait" | "dead";
  /** Close the client on SIGTERM and SIGINT. Default false. */
  signals?: boolean;
}

const WORK_KEYS: ReadonlySet<string> = optionKeys<WorkOptions>({
  concurrency: true,
  queues: true,
  types: true,
  lease: true,
  poll: true,
  grace: true,
  unknownType: true,
  signals: true,
});

export interface WorkerSettings {
  concurrency: number;
  queues: readonly string[] | null;
  types: readonly string[] | null;
  leaseMs: number;
  pollMs: number;
  graceMs: number;
  deadLetterUnknownTypes: boolean;
}

export function readWorkOptions(options: WorkOptions): WorkerSettings {
  refuseUnknown(options, WORK_KEYS, "work");
  const leaseMs = durationMs(options.lease ?? DEFAULTS.leaseMs, "lease");
  if (leaseMs < 100) throw new InvalidOptionError("lease", "must be at least 100 ms");
  const pollMs = durationMs(options.poll ?? DEFAULTS.pollMs, "poll");
  if (pollMs < 1) throw new InvalidOptionError("poll", "must be longer than 0");
  if (options.unknownType !== undefined && !["wait", "dead"].includes(options.unknownType)) {
    throw new InvalidOptionError("unknownType", `${JSON.stringify(options.unknownType)} is none of "wait", "dead"`);
  }
  return {
    concurrency: readCount(options.concurrency ?? DEFAULTS.concurrency, "concurrency", 1, LIMITS.concurrency),
    queues: readNames(options.queues, "queues", readQueue),
    types: readNames(
      Array.isArray(options.types) ? options.types.map(typeName) : (options.types as undefined),
      "types",
      (name, field) => readName(name, field, LIMITS.typeLength),
    ),
    leaseMs,
    pollMs,
    graceMs: durationMs(options.grace ?? DEFAULTS.graceMs, "grace"),
    deadLetterUnknownTypes: options.unknownType === "dead",
  };
}

function readNames(
  names: readonly string[] | undefined,
  field: string,
  read: (name: unknown, field: string) => string,
): readonly string[] | null {
  if (names === undefined) return null;
  if (!Array.isArray(names) || names.length === 0) throw new InvalidOptionError(field, "must be a non-empty array");
  return names.map((name, index) => read(name, `${field}.${index}`));
}

function typeName(type: string | JobType | null): string {
  return typeof type === "object" && type !== null ? type.type : (type as string);
}
