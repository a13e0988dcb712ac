import { InvalidOptionError } from "./errors.js";
import { show } from "./options.js";

/** What a base path is, in words that follow "is". */
export const BASE_PATH = 'a path such as "/ops", without a slash at its end';

const LONGEST = 200;

/** As it stands in a cookie and in an address, so that no character of it means something there. The root is nothing. */
export function readBasePath(path: unknown): string {
  if (path === "" || path === "/") return "";
  if (typeof path !== "string" || path.length > LONGEST || !/^(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]+)+$/.test(path)) {
    throw new InvalidOptionError("basePath", `${show(path)} is not ${BASE_PATH}`);
  }
  return path;
}
