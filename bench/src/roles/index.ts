import { afterCommit } from "./after-commit.js";
import { claimTypes } from "./claim-types.js";
import { drain } from "./drain.js";
import { enqueue } from "./enqueue.js";
import { idle } from "./idle.js";
import { latency, listen } from "./latency.js";
import { list } from "./list.js";
import { rawDrain, rawInsert, rawTwoCommits } from "./raw.js";
import { fireSchedules, lookForDue } from "./schedules.js";
import { startup } from "./startup.js";
import { idleUnits, meteredClaims, meteredJobs } from "./units.js";

/** Every part that a process can play. */
export const roles: Roles = {
  drain,
  enqueue,
  latency,
  listen,
  startup,
  claimTypes,
  list,
  idle,
  afterCommit,
  fireSchedules,
  lookForDue,
  rawDrain,
  rawInsert,
  rawTwoCommits,
  meteredClaims,
  meteredJobs,
  idleUnits,
};

export interface Roles {
  drain: typeof drain;
  enqueue: typeof enqueue;
  latency: typeof latency;
  listen: typeof listen;
  startup: typeof startup;
  claimTypes: typeof claimTypes;
  list: typeof list;
  idle: typeof idle;
  afterCommit: typeof afterCommit;
  fireSchedules: typeof fireSchedules;
  lookForDue: typeof lookForDue;
  rawDrain: typeof rawDrain;
  rawInsert: typeof rawInsert;
  rawTwoCommits: typeof rawTwoCommits;
  meteredClaims: typeof meteredClaims;
  meteredJobs: typeof meteredJobs;
  idleUnits: typeof idleUnits;
}
export type RoleName = keyof Roles;
export type OrderOf<Name extends RoleName> = Parameters<Roles[Name]>[0];
export type ResultOf<Name extends RoleName> = Awaited<ReturnType<Roles[Name]>>;
