import { typedTimeMs, type TypedTime } from "../../config/index.js";

/** The ISO time of a flag whose form was already checked. */
export function readTime(text: string, time: TypedTime): string {
  return new Date(typedTimeMs(text, time)).toISOString();
}
