import { setTimeout as sleep } from "node:timers/promises";
import { ClosedError } from "../../../errors.js";
import { numberOf, type Item } from "../connection/attributes.js";
import type { SharedConfig } from "../connection/config.js";
import { Change } from "../connection/expressions.js";
import type { Table } from "../connection/table.js";
import { FOLLOWING } from "../jobs/item-keys.js";
import { cursorOf } from "./cursor.js";
import { NOTICED_MS } from "./recorder.js";

/** The state of recording, in one item. */
export interface Following {
  epoch: number;
  /** Cursors of this epoch are valid until then, and transitions are recorded at least until then. */
  until: number;
  /** The number of the newest batch. */
  number: number;
  /** How many transitions were recorded in all. */
  total: number;
  /** Cursors before the batch with this number have expired. */
  deleted: number;
}

export function readFollowing(item: Item | null): Following {
  const field = (name: string): number => numberOf(item ?? {}, name) ?? 0;
  return {
    epoch: field("epoch"),
    until: field("until"),
    number: field("number"),
    total: field("total"),
    deleted: field("deleted"),
  };
}

// Covers the duration of a request, and clocks that run at slightly different speeds.
const MARGIN_MS = 500;

interface Parts {
  config: SharedConfig;
  time: () => number;
  /** False under a test clock: processes read the config at each call, so nothing has to be awaited. */
  isLive: boolean;
  /** Aborted when the store closes. */
  closing: AbortSignal;
}

/**
 * Makes all processes record their transitions for so long, and returns a cursor. If they did not record before, waits until
 * every process must have noticed: a process decides by a config that is at most NOTICED_MS old.
 *
 * Followers extend the time long before its end. Then no process has stopped recording, and nothing has to be awaited. They also
 * extend it further than needed, so that of many followers only one has to write.
 */
export async function follow(table: Table, parts: Parts, forMs: number): Promise<string> {
  const { config, time, isLive, closing } = parts;
  for (;;) {
    const before = readFollowing(await table.get(FOLLOWING));
    const isOn = before.until > time();
    if (isOn && before.until >= time() + forMs) return cursorAfter(before, time());
    const aheadMs = isLive ? Math.ceil(forMs / 2) : 0;
    const waitMs = isOn || !isLive ? 0 : NOTICED_MS + MARGIN_MS;
    await config.followUntil(time() + waitMs + forMs + aheadMs + MARGIN_MS);
    if (waitMs > 0) await wait(waitMs, closing);
    const now = time();
    const change = new Change().set({ until: now + forMs + aheadMs });
    if (isOn) change.when(`#epoch = ${change.value(before.epoch)}`, `#until > ${change.value(now)}`);
    else {
      // Cursors of earlier epochs have expired, so their batches count as deleted.
      change.set({ epoch: before.epoch + 1 }).setTo("deleted", `if_not_exists(#number, ${change.value(0)})`);
      change.when(before.epoch === 0 ? "attribute_not_exists(#epoch)" : `#epoch = ${change.value(before.epoch)}`);
      change.when(`attribute_not_exists(#until) OR #until <= ${change.value(now)}`);
    }
    const written = await table.update(FOLLOWING, change);
    const epoch = isOn ? before.epoch : before.epoch + 1;
    if (written.done) return cursorAfter({ ...readFollowing(written.old), epoch }, now);
    // Another follower was faster, or this request was and its response was lost.
  }
}

function cursorAfter({ epoch, number }: Pick<Following, "epoch" | "number">, now: number): string {
  return cursorOf({ epoch, done: number, seen: number, upTo: 0, at: now });
}

async function wait(ms: number, closing: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal: closing });
  } catch {
    throw new ClosedError("the store is closed", "open a new one");
  }
}
