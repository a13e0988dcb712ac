import { createRequire } from "node:module";
import type { Database, Options } from "better-sqlite3";
import { DriverMissingError, DriverUnsupportedError } from "../../../errors.js";

type Driver = new (file: string, options?: Options) => Database;

const require = createRequire(import.meta.url);

/** Loads better-sqlite3 on demand. */
export function loadDriver(): Driver {
  refuseUnsupported(driverVersion(), process.versions.node);
  try {
    return require("better-sqlite3") as Driver;
  } catch (error) {
    throw DriverMissingError.notInstalled("better-sqlite3", error);
  }
}

/** Driver versions from this one on need this Node version. On an older Node they do not throw: they crash the process. */
const SINCE = { driver: 13, node: 22 };

/** Called before the driver is loaded: a crash cannot be caught. */
export function refuseUnsupported(driver: string | null, node: string): void {
  const isAffected = driver !== null && majorOf(driver) >= SINCE.driver;
  if (!isAffected || majorOf(node) >= SINCE.node) return;
  throw new DriverUnsupportedError(
    `better-sqlite3 ${driver} crashes on Node ${node}; on this Node install version 12 with: npm install better-sqlite3@12, ` +
      `or run on Node ${SINCE.node} or later`,
  );
}

/** Null if the version cannot be read. Loading the driver then reports what is wrong. */
function driverVersion(): string | null {
  try {
    return (require("better-sqlite3/package.json") as { version?: string }).version ?? null;
  } catch {
    return null;
  }
}

function majorOf(version: string): number {
  return Number.parseInt(version, 10);
}
