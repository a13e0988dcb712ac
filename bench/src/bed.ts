import type { Limits } from "./limits.js";

/** The stores that can be measured. A new one needs a line in `main.ts`, a bed, limits and a raw baseline. */
export type StoreName = "sqlite" | "postgres" | "dynamodb";

/** Jobs in the store before a trial starts. Every kind but `future` comes before the due jobs in the queue. */
export interface Filling {
  kind:
    | "due"
    | "future"
    | "finished"
    | "expired"
    | "other"
    | "listed"
    | "empty lanes"
    | "due schedules"
    | "idle schedules";
  count: number;
  /** Size of each input; small by default. */
  inputBytes?: number;
}

/** The store of one trial. */
export interface Place {
  url: string;
  remove(): Promise<void>;
}

/** Creates the stores of trials, for one kind of store. */
export interface Bed {
  readonly store: StoreName;
  readonly limits: Limits;
  /** Facts about the database that figures depend on: its version, its durability. */
  facts(): Record<string, string> | Promise<Record<string, string>>;
  /** A store with Holdfast's schema and these jobs. The same filling costs time only once. */
  place(filling: readonly Filling[]): Promise<Place>;
  /** A URL without a store. */
  nowhere(): Place;
  /** Opens a transaction that keeps its snapshot of the store. Returns a function that ends it. */
  hold(place: Place): Promise<() => Promise<void>>;
  close(): Promise<void>;
}
