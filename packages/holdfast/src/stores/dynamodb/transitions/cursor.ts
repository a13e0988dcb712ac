import { InvalidOptionError } from "../../../errors.js";

/**
 * A position in the recorded transitions. Batches up to `done` were returned completely. Of the batches up to `seen`, the
 * transitions up to the time `upTo` were returned. Later batches were not read.
 */
export interface Position {
  /** Increases if nothing was recorded for a while: cursors from before that have expired. */
  epoch: number;
  done: number;
  seen: number;
  upTo: number;
  /** When the cursor was returned. */
  at: number;
}

export function cursorOf({ epoch, done, seen, upTo, at }: Position): string {
  return [epoch, done, seen, upTo, at].join(".");
}

export function readCursor(cursor: string): Position {
  const [, ...fields] = /^(\d{1,15})\.(\d{1,15})\.(\d{1,15})\.(\d{1,15})\.(\d{1,15})$/.exec(cursor) ?? [];
  const [epoch, done, seen, upTo, at] = fields.map(Number);
  if (epoch === undefined || done === undefined || seen === undefined || upTo === undefined || at === undefined)
    throw new InvalidOptionError("cursor", "is not a cursor of this store's transitions");
  return { epoch, done, seen, upTo, at };
}
