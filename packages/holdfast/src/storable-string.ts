import { truncate } from "./job/json.js";

/**
 * Makes an untrusted string safe to store with a job or in the audit log: well-formed Unicode, no NUL characters (PostgreSQL cannot
 * store them), at most `maxLength` characters. It describes something that already happened, so it is cleaned and truncated, never
 * refused.
 */
export function storableString(text: string, maxLength: number): string {
  return truncate(text.replaceAll("\0", "\u{fffd}").toWellFormed(), maxLength);
}
