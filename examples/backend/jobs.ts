// The module that holdfast.toml names: the same jobs for the `holdfast` command, for example `holdfast worker`.
import type { Housekeeping } from "@holdfast/housekeeping";
import type { Holdfast, JobType } from "holdfast";
import pg from "pg";
import { createCleanUp } from "./clean-up.js";

const pool = new pg.Pool({ connectionString: process.env["HOLDFAST_STORE"] });
const cleanUp: Housekeeping = createCleanUp(pool);

export const jobs: readonly JobType[] = cleanUp.jobs;

export function setup(hf: Holdfast): Promise<void> {
  return cleanUp.install(hf);
}

export function teardown(): Promise<void> {
  return pool.end();
}
