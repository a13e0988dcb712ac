/** The targets of a store, and the sizes of its trials. */
export interface Limits {
  /** The cases that apply to the store; null: all. */
  cases: readonly string[] | null;
  /** The concurrency of drains. */
  concurrency: number;
  /** A drain divided by the same writes without Holdfast. */
  drain: number;
  /** Many concurrent callers divided by one; null: no target. */
  atOnce: number | null;
  /** `enqueueMany` divided by the same inserts without Holdfast. */
  enqueueMany: number | null;
  /** Enqueue to start, compared with the two commits that it needs: additional milliseconds, or a factor. */
  latency: { moreMs: number } | { times: number };
  /**
   * The drain of one type behind many jobs of another, divided by the plain drain; null if its index is created during
   * the trial.
   */
  drainTypes: number | null;
  /** A claim of a few jobs of one type behind many of another. */
  claimTypesMs: number | null;
  /** Queries per second of an idle worker and scheduler; null if the store has no server. */
  idleQueries: number | null;
  /** Queries per second of an open Overview; null if the store has no server. */
  openQueries: number | null;
  /** From the commit of a caller's transaction to the handler of a job enqueued in it. */
  afterCommitMs: number | null;
  /** A search, a count, an explanation, error groups or history; null if requests are limited instead. */
  insightMs: number | null;
  /** Billed units; null if the database bills none. */
  units: UnitLimits | null;
  /** What a store has many of while its dashboard is open: the jobs of lists exist only as SQL. */
  shown: "listed" | "finished";
  /** From opening the store to the first result. */
  startupMs: number;
  /** Other jobs in the store that must not slow down a drain, in multiples of the drained jobs. */
  background: { ready: number; future: number; finished: number; expired: number; other: number };
}

/**
 * The maximum write units of a job from enqueue to completion, including failed conditions, and how much more claims
 * may cost.
 */
export interface UnitLimits {
  job: number;
  keyedJob: number;
  /** Requests per claimed job with future and finished jobs in the store, divided by those without. */
  requests: number;
  /** Requests of a search, a count, an explanation, error groups or history. */
  call: number;
}

export const SQLITE: Limits = {
  cases: null,
  units: null,
  concurrency: 10,
  drain: 0.6,
  atOnce: null,
  enqueueMany: null,
  latency: { moreMs: 0.3 },
  drainTypes: 0.8,
  claimTypesMs: null,
  idleQueries: null,
  openQueries: null,
  afterCommitMs: null,
  insightMs: 50,
  shown: "listed",
  startupMs: 150,
  background: { ready: 0, future: 1, finished: 5, expired: 1, other: 1 },
};

export const POSTGRES: Limits = {
  cases: null,
  units: null,
  concurrency: 24,
  drain: 0.7,
  atOnce: 20,
  enqueueMany: 0.7,
  latency: { times: 1.5 },
  drainTypes: null,
  claimTypesMs: 5,
  idleQueries: 4,
  openQueries: 3,
  afterCommitMs: 5,
  insightMs: 50,
  shown: "listed",
  startupMs: 500,
  background: { ready: 10, future: 5, finished: 10, expired: 5, other: 5 },
};

/** The targets are ratios and units, because the speed of the emulator is not that of DynamoDB. */
export const DYNAMODB: Limits = {
  cases: [
    "drain",
    "enqueue-many",
    "insight",
    "dashboard-list",
    "dashboard-tasks",
    "dashboard-queries",
    "requests",
    "units",
    "idle-units",
  ],
  units: { job: 7, keyedJob: 11, requests: 1.05, call: 10 },
  concurrency: 24,
  drain: 0.6,
  atOnce: null,
  enqueueMany: null,
  latency: { times: 1.5 },
  drainTypes: null,
  claimTypesMs: null,
  idleQueries: null,
  openQueries: 3,
  afterCommitMs: null,
  insightMs: null,
  shown: "finished",
  startupMs: 1_000,
  background: { ready: 0, future: 5, finished: 5, expired: 0, other: 0 },
};
