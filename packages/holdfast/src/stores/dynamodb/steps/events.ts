import type { NewEvent } from "../../../store.js";
import { itemOf, numberOf, stringOf, type Item } from "../connection/attributes.js";
import { Change } from "../connection/expressions.js";
import { eventKey } from "../jobs/item-keys.js";
import { ttlSeconds, wakeNote } from "../jobs/items.js";

/**
 * The item of an event has its payload while the event is kept. Before that, it may be a mark that jobs wait for the event: each of them
 * writes this item in its own transaction, if no event is kept. So the waiters that are read after an event was put are all. An event is
 * put without a note, and its waiters are not read, if there were none and the `version` of the item is still that which was read then.
 */

// DynamoDB deletes the item some time after that. Until then, an emit that a crash has interrupted is completed.
const KEPT_AT_LEAST_MS = 86_400_000;

/** `hasWaiters`: a note in an index marks that their waits have not ended. */
export function eventItem(
  { name, payload, keepMs }: NewEvent,
  { version, shard, hasWaiters }: { version: string; shard: number; hasWaiters: boolean },
  now: number,
): Item {
  return itemOf({
    ...eventKey(name),
    name,
    version,
    payload,
    at: now,
    keep_until: now + keepMs,
    ttl: ttlSeconds(now + Math.max(keepMs, KEPT_AT_LEAST_MS)),
    ...(hasWaiters ? wakeNote({ id: name, shard }, now) : {}),
  });
}

/** A condition: nothing has written the item since it was read. */
export function ifSameVersion(head: Item | null): Change {
  const change = new Change();
  const version = head === null ? null : stringOf(head, "version");
  return change.when(version === null ? "attribute_not_exists(#pk)" : `#version = ${change.value(version)}`);
}

/** The payload of an event that is kept; null if there is none. */
export function keptPayload(head: Item | null, now: number): string | null {
  if (head === null || (numberOf(head, "keep_until") ?? 0) <= now) return null;
  return stringOf(head, "payload");
}

/** Whether there may be waits for the event that have not ended. */
export function isNoted(head: Item | null): boolean {
  return head?.["expiry"] !== undefined;
}

/** Marks that a job waits for the event. Fails if the event is kept, or was and has waits that have not ended. */
export function waiterMark(version: string, now: number): Change {
  const change = new Change().set({ version, ttl: ttlSeconds(now + KEPT_AT_LEAST_MS) });
  return ifNotKept(change.remove("payload", "at", "keep_until", "name"), now);
}

/** A condition: no event is kept, and all waits for the last one have ended. */
export function ifNotKept(change: Change, now: number): Change {
  const isOver = `#keep_until <= ${change.value(now)} AND attribute_not_exists(#expiry)`;
  return change.when(`attribute_not_exists(#payload) OR (${isOver})`);
}

/** All waits for the event have ended. */
export function withoutNote(event: Item): Change {
  const change = new Change().remove("expiry", "expires");
  return change.when(`#version = ${change.value(stringOf(event, "version") ?? "")}`);
}
