import { typedTimeMs, type TypedTime } from "../../config/index.js";

/** A time that was typed, and checked with its flag, as the API takes it. */
export function readTime(text: string, time: TypedTime): string {
  return new Date(typedTimeMs(text, time)).toISOString();
}
