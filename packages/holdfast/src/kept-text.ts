/**
 * A string from outside as it is kept with a job or in the audit log: well-formed, without the character NUL, for which
 * PostgreSQL has no place, and not longer than `longest`. What was done is done: it is cleaned and cut, never refused.
 */
export function keptText(text: string, longest: number): string {
  const clean = text.replaceAll("\0", "\u{fffd}").toWellFormed();
  return clean.length <= longest ? clean : `${clean.slice(0, longest - 1).toWellFormed()}…`;
}
