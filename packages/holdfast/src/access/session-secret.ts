import { InvalidOptionError } from "../errors.js";

const MIN_LENGTH = 32;

/** Reads the secret that signs sessions. `field` names it in the error, which never contains the secret. */
export function readSessionSecret(secret: unknown, field: string): string {
  if (typeof secret !== "string" || secret.length < MIN_LENGTH) {
    throw new InvalidOptionError(field, `must be a string of at least ${MIN_LENGTH} characters`);
  }
  return secret;
}
