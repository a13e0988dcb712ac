import type { AuditResult } from "holdfast/admin";
import { plural } from "../../app/format.js";

const WORDS: Readonly<Record<string, string>> = {
  "jobs.enqueue": "enqueued a job",
  "jobs.update": "changed a job",
  "jobs.promote": "made a job due",
  "jobs.retry": "retried a job",
  "jobs.cancel": "cancelled a job",
  "jobs.rerun": "reran a job",
  "jobs.remove": "deleted a job",
  "jobs.updateMany": "started to change jobs",
  "jobs.promoteMany": "started to make jobs due",
  "jobs.retryMany": "started to retry jobs",
  "jobs.cancelMany": "started to cancel jobs",
  "jobs.removeMany": "started to delete jobs",
  "jobs.purge": "started to purge jobs",
  "operations.stop": "stopped an operation",
  "schedules.create": "created a schedule",
  "schedules.update": "changed a schedule",
  "schedules.remove": "removed a schedule",
  "schedules.enable": "enabled a schedule",
  "schedules.disable": "disabled a schedule",
  "schedules.reset": "reset a schedule",
  "schedules.run": "ran a schedule",
  "queues.pause": "paused a queue",
  "queues.resume": "resumed a queue",
  "queues.pauseAll": "paused all queues",
  "queues.resumeAll": "resumed all queues",
  "keys.free": "freed a unique key",
  "tokens.create": "created an API token",
  "tokens.revoke": "revoked an API token",
};
const DONE: Readonly<Record<string, string>> = {
  retry: "retried",
  cancel: "cancelled",
  delete: "deleted",
  update: "changed",
  promote: "made due:",
  purge: "purged",
};

/** An audit entry in words: what was done, and to what. Actions without words are shown by their names. */
export function changeWords({ action, target, count }: Pick<AuditResult, "action" | "target" | "count">): {
  what: string;
  about: string;
} {
  const [area = "", verb = ""] = action.split(".");
  const about = target === null ? "" : target.slice(0, 200);
  if (area === "operation") {
    const done = Object.hasOwn(DONE, verb) ? DONE[verb] : verb;
    return { what: `${done} ${plural(count, "job")}`, about };
  }
  return { what: (Object.hasOwn(WORDS, action) ? WORDS[action] : undefined) ?? action, about };
}
