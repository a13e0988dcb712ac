import { createRequire } from "node:module";
import { DriverMissingError } from "../errors.js";

/**
 * Loads an optional peer of a pack, with an error that says what to install.
 *
 * ```ts
 * const nodemailer = requirePeer<typeof import("nodemailer")>("nodemailer", import.meta.url);
 * ```
 */
export function requirePeer<Module>(name: string, from: string): Module {
  try {
    return createRequire(from)(name) as Module;
  } catch (error) {
    throw DriverMissingError.notInstalled(name, error);
  }
}
