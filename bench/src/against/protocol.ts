/**
 * The messages between the comparing process and the drivers of the two builds. The driver may be that of an older
 * build, so a change here needs a new protocol number: a build with another number is measured with a copy of the newer
 * driver.
 */
export const PROTOCOL = 1;

/** The measured store calls, in the order of the life of a job. */
export const CALLS = ["insert", "claim", "settle"] as const;
export type Call = (typeof CALLS)[number];

/** Requests to a driver, with their arguments. */
export interface Orders {
  /** Opens an empty store, migrates it, and inserts the backlog. */
  open: { url: string; backlog: number; concurrency: number };
  /**
   * For each size: inserts, claims and settles this many jobs, in one call each. The size of the backlog does not
   * change.
   */
  calls: { sizes: readonly number[] };
  /** Drains the backlog with a worker, then inserts it again. */
  drain: null;
  close: null;
}
export type Kind = keyof Orders;
export type Request = { [K in Kind]: { kind: K; order: Orders[K] } }[Kind];

/** Milliseconds of each call. */
export type CallTimes = Record<Call, number>;

export interface Results {
  /** Where `holdfast` was loaded from: with a missing link it would be that of another build. */
  open: { product: string };
  /** One entry per size. */
  calls: CallTimes[];
  /** Seconds from the start of the worker until it has stopped and every outcome is durable. */
  drain: number;
  close: null;
}

/** Each request gets one. */
export type Response = { kind: "result"; result: unknown } | { kind: "error"; error: string };
