import { InvalidOptionError } from "./errors.js";
import { show } from "./options.js";

/** Describes a valid base path in error messages and in the reference. */
export const BASE_PATH = 'a path such as "/ops", without a trailing slash';

const MAX_LENGTH = 200;

/** Reads a base path; the root becomes "". The path is used in URLs and cookies, so characters special there are refused. */
export function readBasePath(path: unknown): string {
  if (path === "" || path === "/") return "";
  if (typeof path !== "string" || path.length > MAX_LENGTH || !/^(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]+)+$/.test(path)) {
    throw new InvalidOptionError("basePath", `${show(path)} is not ${BASE_PATH}`);
  }
  return path;
}
