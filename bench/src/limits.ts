/** What a store is held to, and how much of what it is tried with. */
export interface Limits {
  /** The cases that make sense for the store; null: all. */
  cases: readonly string[] | null;
  /** Handlers at once in drains. */
  concurrency: number;
  /** A drain over the same writes by hand. */
  drain: number;
  /** Many callers at once over one; null: not held to anything. */
  atOnce: number | null;
  /** `enqueueMany` over the same rows by hand. */
  enqueueMany: number | null;
  /** Enqueue to start over the two commits it cannot do without: so many milliseconds more, or so many times as long. */
  latency: { moreMs: number } | { times: number };
  /** The drain of one type behind many jobs of another, over the plain one; null where its index is made meanwhile. */
  drainTypes: number | null;
  /** A claim of a few jobs of one type behind many of another. */
  claimTypesMs: number | null;
  /** Queries a second of a worker and a scheduler without work; null where the store answers no queries over a wire. */
  idleQueries: number | null;
  /** From the commit of a caller's transaction to the handler of a job enqueued in it. */
  afterCommitMs: number | null;
  /** What the database charges; null where it charges nothing. */
  units: UnitLimits | null;
  /** From nothing to the first answer. */
  startupMs: number;
  /** Jobs beside which a drain must stay as fast, in multiples of the jobs drained. */
  beside: { ready: number; future: number; finished: number; expired: number; other: number };
}

/** Most write units of a job from enqueue to completion, lost conditions included, and how much dearer claims may become. */
export interface UnitLimits {
  job: number;
  keyedJob: number;
  /** Requests a claimed job, beside jobs that are not due or done, over those without. */
  requests: number;
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
  afterCommitMs: null,
  startupMs: 150,
  beside: { ready: 0, future: 1, finished: 5, expired: 1, other: 1 },
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
  afterCommitMs: 5,
  startupMs: 500,
  beside: { ready: 10, future: 5, finished: 10, expired: 5, other: 5 },
};

/** Held to ratios and to units: how fast the emulator is says nothing about DynamoDB. */
export const DYNAMODB: Limits = {
  cases: ["drain", "enqueue-many", "requests", "units", "idle-units"],
  units: { job: 7, keyedJob: 11, requests: 1.05 },
  concurrency: 24,
  drain: 0.6,
  atOnce: null,
  enqueueMany: null,
  latency: { times: 1.5 },
  drainTypes: null,
  claimTypesMs: null,
  idleQueries: null,
  afterCommitMs: null,
  startupMs: 1_000,
  beside: { ready: 0, future: 5, finished: 5, expired: 0, other: 0 },
};
