import { LIMITS } from "../../defaults.js";
import { readName } from "../../options.js";

export function readEventName(value: unknown): string {
  return readName(value, "event", LIMITS.eventNameLength);
}
