/**
 * Reading what handlers and callbacks throw. An error may come from another copy of this package or from another realm (a `vm`
 * context, jest), or be no error at all, so everything is read by its shape and nothing by `instanceof`. Nothing here throws.
 */

/** An error, of this realm or another, or an object that was thrown in the place of one. */
export function isErrorLike(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  return typeof read(value, "message") === "string" || typeof read(value, "stack") === "string" || isError(value);
}

const UNSHOWABLE = "a value that cannot be shown";

/** What a thrown value says; of one that says nothing, `unshowable`. */
export function messageOf(thrown: unknown, unshowable: string = UNSHOWABLE): string {
  if (!isErrorLike(thrown)) return shown(thrown, unshowable);
  const message = read(thrown, "message");
  if (typeof message !== "string") return unshowable;
  return message === "" ? (nameOf(thrown) ?? "Error") : message;
}

/** The name of an error's class; null for what is no error. */
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

/** A field of what may be a proxy or have a getter that throws; undefined if it cannot be read. */
export function read(value: unknown, field: string | symbol): unknown {
  try {
    return (value as Record<string | symbol, unknown> | null | undefined)?.[field];
  } catch {
    return undefined;
  }
}

/** Made by `Error` of this realm or another. */
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
