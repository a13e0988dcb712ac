import { getSystemErrorMap } from "node:util";

/** The reason of a system error, such as `ENOENT: no such file or directory`, without the call and the path. */
export function systemReason(error: unknown): string {
  const { errno, message } = error as NodeJS.ErrnoException;
  const known = errno === undefined ? undefined : getSystemErrorMap().get(errno);
  return known === undefined ? message : known.join(": ");
}
