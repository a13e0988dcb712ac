import { describe } from "vitest";
import { postgresServer } from "../postgres/server.js";
import { createsSchema } from "./audit-suite.js";
import { storesOf } from "./workspace.js";

describe.each(storesOf(postgresServer()))("the audit log on %s", (_name, address) => {
  createsSchema(address, {
    commands: [
      ["tokens", "create", "ci", "--role", "viewer"],
      ["schedules", "create", "nightly", "mail", "--every", "1d"],
      ["process", "jobs.ts"],
    ],
    services: [
      ["serve", "--port", "0"],
      ["dev", "jobs.ts", "--port", "0"],
    ],
  });
});
