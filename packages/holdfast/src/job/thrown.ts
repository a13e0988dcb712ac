/**
 * Reads values thrown by handlers and callbacks. They may come from another copy of this package or from another realm (a `vm`
 * context, jest), or not be errors at all, so nothing here uses `instanceof`. None of these functions throws.
 */

/** Whether this is an error of any realm, or an object that looks like one. */
export function isErrorLike(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  return typeof read(value, "message") === "string" || typeof read(value, "stack") === "string" || isError(value);
}

const UNSHOWABLE = "a value that cannot be shown";

/** The message of a thrown value; `unshowable` if it has none. */
export function messageOf(thrown: unknown, unshowable: string = UNSHOWABLE): string {
  if (!isErrorLike(thrown)) return shown(thrown, unshowable);
  const message = read(thrown, "message");
  if (typeof message !== "string") return unshowable;
  return message === "" ? (nameOf(thrown) ?? "Error") : message;
}

/** The name of an error's class; null if the value is not an error. */
export function nameOf(thrown: unknown): string | null {
  const name = isErrorLike(thrown) ? read(thrown, "name") : null;
  return typeof name === "string" && name !== "" ? name : null;
}

/** The code of an error; a number as a string. */
export function codeOf(thrown: unknown): string | null {
  const code = isErrorLike(thrown) ? read(thrown, "code") : null;
  return typeof code === "string" || typeof code === "number" ? String(code) : null;
}

/** The stack of an error; null if it has none. */
export function stackOf(thrown: unknown): string | null {
  const stack = isErrorLike(thrown) ? read(thrown, "stack") : null;
  return typeof stack === "string" ? stack : null;
}

/** Reads a field of any value. Returns undefined if a getter or proxy throws. */
export function read(value: unknown, field: string | symbol): unknown {
  try {
    return (value as Record<string | symbol, unknown> | null | undefined)?.[field];
  } catch {
    return undefined;
  }
}

/** Whether an `Error` constructor of any realm created it. */
function isError(value: object): boolean {
  try {
    return Object.prototype.toString.call(value) === "[object Error]";
  } catch {
    return false;
  }
}

function shown(value: unknown, unshowable: string): string {
  if (typeof value === "string") return value;
  try {
    return (typeof value === "bigint" ? undefined : JSON.stringify(value)) ?? String(value);
  } catch {
    return unshowable;
  }
}
