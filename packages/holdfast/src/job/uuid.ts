import { createHash, randomFillSync } from "node:crypto";
import { InvalidOptionError } from "../errors.js";
import { show } from "../options.js";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const DIGITS = Buffer.from("0123456789abcdef");

// Random bytes are drawn for many ids in one call: one call per id would cost more than everything else in an enqueue.
const pool = Buffer.alloc(4096);
let used = pool.length;
let lastMs = 0;
let sequence = 0;
// Each id is written here and then converted to a string. Concatenating strings would take several times as long and, until the
// result is first read, ten times the memory.
const text = Buffer.from("00000000-0000-7000-8000-000000000000");

/**
 * Creates a UUIDv7. These ids sort by creation time, so index pages fill in order. Within one process they always increase, also
 * within a millisecond and after the clock jumps back.
 */
export function newId(nowMs: number): string {
  if (nowMs > lastMs) startMs(nowMs);
  else if (++sequence > 0xfff) startMs(lastMs + 1);
  if (used + 8 > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  writeHex(15, sequence, 3);
  writeHex(19, (pool.readUInt16BE(used) & 0x3fff) | 0x8000, 4);
  writeHex(24, pool.readUInt16BE(used + 2), 4);
  writeHex(28, pool.readUInt32BE(used + 4), 8);
  used += 8;
  return text.toString("latin1");
}

function startMs(ms: number): void {
  lastMs = ms;
  sequence = 0;
  writeHex(0, Math.floor(ms / 0x1_0000), 8);
  writeHex(9, ms % 0x1_0000, 4);
}

/** Writes the lowest hexadecimal `digits` of a number of up to 32 bits. */
function writeHex(at: number, value: number, digits: number): void {
  let left = value;
  for (let index = at + digits - 1; index >= at; index--) {
    text[index] = DIGITS[left & 0xf] as number;
    left >>>= 4;
  }
}

/** The id of the job for a slot. It depends only on the slot, so all processes create the same job. Sorts by the slot's time. */
export function slotId(name: string, slot: number): string {
  const hash = createHash("sha256").update(name).digest("hex");
  const time = Math.max(0, slot).toString(16).padStart(12, "0");
  const variant = ((Number.parseInt(hash.slice(0, 2), 16) & 0x3f) | 0x80).toString(16);
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hash.slice(2, 5)}-${variant}${hash.slice(5, 7)}-${hash.slice(7, 19)}`;
}

/** The id of a child job. It depends only on its parent and step, so a step that is stored again has the same child. Sorts next to the parent. */
export function childId(parent: string, step: string, member: number): string {
  const hash = createHash("sha256").update(`${parent}\n${member}\n${step}`).digest("hex");
  const variant = ((Number.parseInt(hash.slice(0, 2), 16) & 0x3f) | 0x80).toString(16);
  return `${parent.slice(0, 13)}-8${hash.slice(2, 5)}-${variant}${hash.slice(5, 7)}-${hash.slice(7, 19)}`;
}

/** Checks an id given by a caller. Ids are stored in lower case. */
export function readId(value: unknown, field = "id"): string {
  const id = typeof value === "string" ? value.toLowerCase() : value;
  if (typeof id !== "string" || !UUID.test(id)) {
    throw new InvalidOptionError(field, notUuid(value));
  }
  return id;
}

/** What is wrong with a value that is not an id. */
export function notUuid(value: unknown): string {
  return `${show(value)} is not a UUID such as "018f4d2e-7b3a-7c11-8a55-0123456789ab"`;
}
