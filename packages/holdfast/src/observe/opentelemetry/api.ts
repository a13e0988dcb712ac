import { createRequire } from "node:module";
import type * as OpenTelemetry from "@opentelemetry/api";
import { DriverMissingError } from "../../errors.js";

/** The OpenTelemetry API installed by the application. */
export type Api = typeof OpenTelemetry;

/** Loads the package on first use, because it is an optional peer dependency. All its copies in a process share their registrations. */
export function loadApi(): Api {
  try {
    return createRequire(import.meta.url)("@opentelemetry/api") as Api;
  } catch (error) {
    throw DriverMissingError.notInstalled("@opentelemetry/api", error);
  }
}
