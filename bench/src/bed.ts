import type { Limits } from "./limits.js";

/** The stores a bench exists for. A new one adds a line in `main.ts`, a bed, limits and a raw baseline. */
export type StoreName = "sqlite" | "postgres" | "dynamodb";

/** What a trial finds in the store before it begins. Every kind but `future` stands before the due jobs in the queue. */
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

/** A store of its own for one trial. */
export interface Place {
  url: string;
  remove(): Promise<void>;
}

/** Where trials take place: one per store. */
export interface Bed {
  readonly store: StoreName;
  readonly limits: Limits;
  /** Facts about the database that figures depend on: its version, its durability. */
  facts(): Record<string, string> | Promise<Record<string, string>>;
  /** A store with Holdfast's schema that holds these jobs; equal fillings cost only the first time. */
  place(filling: readonly Filling[]): Promise<Place>;
  /** An address at which there is no store yet. */
  nowhere(): Place;
  /** Opens a transaction that goes on seeing the place as it is now; the answer ends it. */
  hold(place: Place): Promise<() => Promise<void>>;
  close(): Promise<void>;
}
