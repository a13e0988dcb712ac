import { durationMs, instantMs } from "../duration.js";
import { InvalidOption } from "../errors.js";
import { BadUsage } from "./failure.js";

const ISO = "2026-01-31T08:00:00Z";

/** An instant that was typed, as the API takes it. */
export function readInstant(text: string, flag: string): string {
  return inWords(text, flag, `write ${ISO}`, () => instantMs(text, flag));
}

/** The same, or how long ago: `2h`. */
export function readPast(text: string, flag: string): string {
  return fromNow(text, flag, { sign: -1, hint: `write ${ISO}, or how long ago: 2h` });
}

/** The same, or how long from now: `2h`. */
export function readFuture(text: string, flag: string): string {
  return fromNow(text, flag, { sign: 1, hint: `write ${ISO}, or how long from now: 2h` });
}

function fromNow(text: string, flag: string, { sign, hint }: { sign: number; hint: string }): string {
  const isLength = /^\d+(?:\.\d+)?\s*[a-z]/.test(text);
  const read = (): number => (isLength ? Date.now() + sign * durationMs(text, flag) : instantMs(text, flag));
  return inWords(text, flag, hint, read);
}

/** What was typed is wrong: nothing has been done. */
function inWords(text: string, flag: string, hint: string, read: () => number): string {
  try {
    return new Date(read()).toISOString();
  } catch (error) {
    if (!(error instanceof InvalidOption)) throw error;
    // What looks like a date has a fault of its own: no zone, or a day that does not exist.
    throw new BadUsage(/^\d{4}-/.test(text) ? error.message : `${flag} is no time`, hint);
  }
}
