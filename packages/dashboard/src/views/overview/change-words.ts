import type { AuditResult } from "holdfast/admin";
import { plural } from "../../app/format.js";

const NOUNS: Readonly<Record<string, string>> = {
  jobs: "a job",
  operations: "an operation",
  schedules: "a schedule",
  queues: "a queue",
  keys: "a unique key",
  tokens: "an API token",
  workers: "a worker",
};
/** Those that do not end in "ed", and those with another word. */
const PAST: Readonly<Record<string, string>> = {
  update: "changed",
  remove: "deleted",
  retry: "retried",
  cancel: "cancelled",
  reset: "reset",
  run: "ran",
  rerun: "reran",
  stop: "stopped",
};

function past(verb: string): string {
  return Object.hasOwn(PAST, verb) ? (PAST[verb] ?? "") : verb.replace(/e?$/, "ed");
}

/** An audit entry in words: what was done, and to what. Actions without words are shown by their names. */
export function changeWords({ action, target, count }: Pick<AuditResult, "action" | "target" | "count">): {
  what: string;
  about: string;
} {
  const [area = "", verb = ""] = action.split(".");
  const about = target === null ? "" : target.slice(0, 200);
  const many = /^(.+)(Many|All)$/.exec(verb);
  let what = action;
  if (area === "operation") what = `${past(verb)} ${plural(count, "job")}`;
  else if (many?.[2] === "All") what = `${past(many[1] ?? "")} all ${area}`;
  // Its end has its own entry, with the number of jobs.
  else if (many !== null || verb === "purge") what = `started an operation: ${many?.[1] ?? verb}`;
  else if (Object.hasOwn(NOUNS, area)) what = `${past(verb)} ${NOUNS[area] ?? ""}`;
  return { what, about };
}
