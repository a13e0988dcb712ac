import { InvalidOptionError } from "../errors.js";

const SHORTEST = 32;

/** Reads what signs sessions; `field` names it in the error, which never shows it. */
export function readSessionSecret(secret: unknown, field: string): string {
  if (typeof secret !== "string" || secret.length < SHORTEST) {
    throw new InvalidOptionError(field, `must be a text of at least ${SHORTEST} characters`);
  }
  return secret;
}
