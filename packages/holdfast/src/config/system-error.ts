import { getSystemErrorMap } from "node:util";

/** Why the system refused, such as `ENOENT: no such file or directory`: without the call and the path, which the sentence names already. */
export function systemReason(error: unknown): string {
  const { errno, message } = error as NodeJS.ErrnoException;
  const known = errno === undefined ? undefined : getSystemErrorMap().get(errno);
  return known === undefined ? message : known.join(": ");
}
