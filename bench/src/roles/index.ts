import type { afterCommit } from "./after-commit.js";
import type { claimTypes } from "./claim-types.js";
import type { dashboard } from "./dashboard.js";
import type { drain } from "./drain.js";
import type { enqueue } from "./enqueue.js";
import type { follow } from "./follow.js";
import type { idle } from "./idle.js";
import type { insight } from "./insight.js";
import type { latency, listen } from "./latency.js";
import type { list } from "./list.js";
import type { newsletter } from "./newsletter.js";
import type { rawDrain, rawInsert, rawTwoCommits } from "./raw.js";
import type { results } from "./results.js";
import type { fireSchedules, lookForDue } from "./schedules.js";
import type { serve, work } from "./serve.js";
import type { startup } from "./startup.js";
import type { steady } from "./steady.js";
import type { idleUnits, meteredClaims, meteredJobs } from "./units.js";

/** Every role of a process. Loaded on demand, so that a process has in memory only what its role needs. */
export const roles: { [Name in RoleName]: () => Promise<Roles[Name]> } = {
  drain: async () => (await import("./drain.js")).drain,
  enqueue: async () => (await import("./enqueue.js")).enqueue,
  latency: async () => (await import("./latency.js")).latency,
  listen: async () => (await import("./latency.js")).listen,
  startup: async () => (await import("./startup.js")).startup,
  claimTypes: async () => (await import("./claim-types.js")).claimTypes,
  list: async () => (await import("./list.js")).list,
  insight: async () => (await import("./insight.js")).insight,
  follow: async () => (await import("./follow.js")).follow,
  idle: async () => (await import("./idle.js")).idle,
  results: async () => (await import("./results.js")).results,
  afterCommit: async () => (await import("./after-commit.js")).afterCommit,
  fireSchedules: async () => (await import("./schedules.js")).fireSchedules,
  lookForDue: async () => (await import("./schedules.js")).lookForDue,
  serve: async () => (await import("./serve.js")).serve,
  work: async () => (await import("./serve.js")).work,
  newsletter: async () => (await import("./newsletter.js")).newsletter,
  rawDrain: async () => (await import("./raw.js")).rawDrain,
  rawInsert: async () => (await import("./raw.js")).rawInsert,
  rawTwoCommits: async () => (await import("./raw.js")).rawTwoCommits,
  meteredClaims: async () => (await import("./units.js")).meteredClaims,
  meteredJobs: async () => (await import("./units.js")).meteredJobs,
  idleUnits: async () => (await import("./units.js")).idleUnits,
  dashboard: async () => (await import("./dashboard.js")).dashboard,
  steady: async () => (await import("./steady.js")).steady,
};

export interface Roles {
  drain: typeof drain;
  enqueue: typeof enqueue;
  latency: typeof latency;
  listen: typeof listen;
  startup: typeof startup;
  claimTypes: typeof claimTypes;
  list: typeof list;
  insight: typeof insight;
  follow: typeof follow;
  idle: typeof idle;
  results: typeof results;
  afterCommit: typeof afterCommit;
  fireSchedules: typeof fireSchedules;
  lookForDue: typeof lookForDue;
  serve: typeof serve;
  work: typeof work;
  newsletter: typeof newsletter;
  rawDrain: typeof rawDrain;
  rawInsert: typeof rawInsert;
  rawTwoCommits: typeof rawTwoCommits;
  meteredClaims: typeof meteredClaims;
  meteredJobs: typeof meteredJobs;
  idleUnits: typeof idleUnits;
  dashboard: typeof dashboard;
  steady: typeof steady;
}
export type RoleName = keyof Roles;
export type OrderOf<Name extends RoleName> = Parameters<Roles[Name]>[0];
export type ResultOf<Name extends RoleName> = Awaited<ReturnType<Roles[Name]>>;
