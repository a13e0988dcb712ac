import { durationMs, instantMs } from "../duration.js";
import { InvalidOption } from "../errors.js";
import { BadUsage } from "./failure.js";

/** An instant that was typed, as the API takes it. */
export function readInstant(text: string, flag: string): string {
  return inWords(flag, () => instantMs(text, flag));
}

/** The same, or how long ago: `2h`. */
export function readPast(text: string, flag: string): string {
  const isLength = /^\d+\s*[a-z]/.test(text);
  return inWords(flag, () => (isLength ? Date.now() - durationMs(text, flag) : instantMs(text, flag)));
}

/** What was typed is wrong: nothing has been done. */
function inWords(flag: string, read: () => number): string {
  try {
    return new Date(read()).toISOString();
  } catch (error) {
    if (!(error instanceof InvalidOption)) throw error;
    throw new BadUsage(`${flag} is no time`, "write 2026-01-31T08:00:00Z, or how long ago: 2h");
  }
}
