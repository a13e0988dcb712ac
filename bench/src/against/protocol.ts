/**
 * What the process that compares and the drivers of the two builds say to each other. The driver of an older build may
 * answer, so a change here needs another number: a build whose number differs is measured by a copy of the newer driver.
 */
export const PROTOCOL = 1;

/** The calls of a store that are measured, in the order in which a job goes through them. */
export const CALLS = ["insert", "claim", "settle"] as const;
export type Call = (typeof CALLS)[number];

/** What a driver is asked to do, with what it needs for it. */
export interface Orders {
  /** Opens an empty store, brings it to the build's schema, and inserts the backlog. */
  open: { url: string; backlog: number; concurrency: number };
  /** For each of the sizes in turn: inserts, claims and settles so many jobs in one call each. The backlog stays as large. */
  calls: { sizes: readonly number[] };
  /** Has a worker run the whole backlog, and then inserts it again. */
  drain: null;
  close: null;
}
export type Kind = keyof Orders;
export type Request = { [K in Kind]: { kind: K; order: Orders[K] } }[Kind];

/** Milliseconds of each call. */
export type CallTimes = Record<Call, number>;

export interface Results {
  /** Where `holdfast` was loaded from: a link that is missing would lead to another build's. */
  open: { product: string };
  /** One for each of the sizes. */
  calls: CallTimes[];
  /** Seconds from the start of the worker until it has stopped and every outcome is durable. */
  drain: number;
  close: null;
}

/** Each request gets one. */
export type Response = { kind: "result"; result: unknown } | { kind: "error"; error: string };
