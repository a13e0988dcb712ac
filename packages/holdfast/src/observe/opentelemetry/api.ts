import { createRequire } from "node:module";
import type * as OpenTelemetry from "@opentelemetry/api";
import { DriverMissingError } from "../../errors.js";

/** The OpenTelemetry API, as the application has it installed. */
export type Api = typeof OpenTelemetry;

/** Loaded when first asked for: the package is an optional peer. All its copies in a process share what is registered. */
export function loadApi(): Api {
  try {
    return createRequire(import.meta.url)("@opentelemetry/api") as Api;
  } catch (error) {
    throw DriverMissingError.notInstalled("@opentelemetry/api", error);
  }
}
