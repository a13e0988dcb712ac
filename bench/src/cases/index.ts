import type { MakeCase } from "../case.js";
import { inChromium } from "../dashboard/browser.js";
import { afterCommit } from "./after-commit.js";
import { claimTypes } from "./claim-types.js";
import { dashboardList } from "./dashboard-list.js";
import { dashboardQueries } from "./dashboard-queries.js";
import { dashboardTasks } from "./dashboard-tasks.js";
import { drainExpired } from "./drain-expired.js";
import { drainFinished } from "./drain-finished.js";
import { drainFollowed } from "./drain-followed.js";
import { drainFuture } from "./drain-future.js";
import { drainHeld } from "./drain-held.js";
import { drainLarge } from "./drain-large.js";
import { drainProcesses } from "./drain-processes.js";
import { drainTypes } from "./drain-types.js";
import { drain } from "./drain.js";
import { enqueueAtOnce } from "./enqueue-at-once.js";
import { enqueueMany } from "./enqueue-many.js";
import { enqueue } from "./enqueue.js";
import { eventLoop } from "./event-loop.js";
import { idle } from "./idle.js";
import { insight } from "./insight.js";
import { lanes } from "./lanes.js";
import { latencyAcross } from "./latency-across.js";
import { latency } from "./latency.js";
import { list } from "./list.js";
import { memory } from "./memory.js";
import { idleUnits } from "./idle-units.js";
import { newsletter } from "./newsletter.js";
import { passwordResetUnknown } from "./password-reset-unknown.js";
import { passwordReset } from "./password-reset.js";
import { requests } from "./requests.js";
import { schedulesDue } from "./schedules-due.js";
import { schedulesIdle } from "./schedules-idle.js";
import { startup } from "./startup.js";
import { stripeWebhook } from "./stripe-webhook.js";
import { units } from "./units.js";

/** Every case by name, in the order of the report. No case depends on the kind of store. */
export const CASES: Readonly<Record<string, MakeCase>> = {
  drain,
  "drain-future": drainFuture,
  "drain-finished": drainFinished,
  "drain-held": drainHeld,
  "drain-expired": drainExpired,
  "drain-followed": drainFollowed,
  "drain-types": drainTypes,
  "claim-types": claimTypes,
  "drain-processes": drainProcesses,
  "drain-large": drainLarge,
  "event-loop": eventLoop,
  enqueue,
  "enqueue-at-once": enqueueAtOnce,
  "enqueue-many": enqueueMany,
  latency,
  "latency-across": latencyAcross,
  "after-commit": afterCommit,
  idle,
  lanes,
  "schedules-due": schedulesDue,
  "schedules-idle": schedulesIdle,
  startup,
  list,
  insight,
  memory,
  "password-reset": passwordReset,
  "password-reset-unknown": passwordResetUnknown,
  "stripe-webhook": stripeWebhook,
  newsletter,
  "dashboard-list": inChromium(dashboardList),
  "dashboard-tasks": inChromium(dashboardTasks),
  "dashboard-queries": inChromium(dashboardQueries),
  requests,
  units,
  "idle-units": idleUnits,
};
