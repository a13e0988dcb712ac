/**
 * Makes an untrusted string safe to store with a job or in the audit log: well-formed Unicode, no NUL characters (PostgreSQL cannot
 * store them), at most `maxLength` characters. It describes something that already happened, so it is cleaned and truncated, never
 * refused.
 */
export function storableString(text: string, maxLength: number): string {
  const clean = text.replaceAll("\0", "\u{fffd}").toWellFormed();
  return clean.length <= maxLength ? clean : `${clean.slice(0, maxLength - 1).toWellFormed()}…`;
}
