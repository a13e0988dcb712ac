import { createHash, randomFillSync } from "node:crypto";
import { InvalidOption } from "./errors.js";
import { show } from "./options.js";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

// Drawing random bytes one id at a time costs more than the rest of an enqueue.
const pool = Buffer.alloc(4096);
let used = pool.length;
let lastMs = 0;
let sequence = 0;

/**
 * A UUIDv7: time-ordered, so that ids sort as they were made and index pages fill in order. Within one process the ids
 * of one millisecond count upwards; a clock that jumps back does not break the order.
 */
export function newId(nowMs: number): string {
  if (nowMs > lastMs) {
    lastMs = nowMs;
    sequence = 0;
  } else if (++sequence > 0xfff) {
    lastMs++;
    sequence = 0;
  }
  if (used + 8 > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const time = lastMs.toString(16).padStart(12, "0");
  const low = (0x7000 | sequence).toString(16);
  const at = used;
  used += 8;
  const h = (offset: number): string => HEX[pool[at + offset] as number] as string;
  const variant = HEX[((pool[at] as number) & 0x3f) | 0x80] as string;
  return `${time.slice(0, 8)}-${time.slice(8)}-${low}-${variant}${h(1)}-${h(2)}${h(3)}${h(4)}${h(5)}${h(6)}${h(7)}`;
}

/** The id of the job for a slot: whoever makes it, and however often, it is the same job. Sorts by the slot's time. */
export function slotId(name: string, slot: number): string {
  const hash = createHash("sha256").update(name).digest("hex");
  const time = Math.max(0, slot).toString(16).padStart(12, "0");
  const variant = HEX[(Number.parseInt(hash.slice(0, 2), 16) & 0x3f) | 0x80] as string;
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hash.slice(2, 5)}-${variant}${hash.slice(5, 7)}-${hash.slice(7, 19)}`;
}

/** Checks an id given by a caller; ids are kept in lower case. */
export function readId(value: unknown, field = "id"): string {
  const id = typeof value === "string" ? value.toLowerCase() : value;
  if (typeof id !== "string" || !UUID.test(id)) {
    throw new InvalidOption(field, `${show(value)} is not a UUID such as "018f4d2e-7b3a-7c11-8a55-0123456789ab"`);
  }
  return id;
}
