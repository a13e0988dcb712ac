// What the audit log says about an entry. Pure.
import type { AuditResult } from "holdfast/admin";
import { isJobId } from "../../app/text.js";
import type { IconName } from "../../ui/icon.js";

const ICONS: Readonly<Record<string, IconName>> = {
  jobs: "jobs",
  operation: "stop",
  operations: "stop",
  schedules: "schedules",
  queues: "queues",
  tokens: "tokens",
  keys: "lock",
  workers: "workers",
  store: "store",
};

export function iconOf(action: string): IconName {
  return ICONS[action.split(".")[0] ?? ""] ?? "event";
}

const MAX_LENGTH = 120;

/** The detail in one line: `priority 10, delay 1h`. */
export function detailWords(detail: unknown): string {
  if (detail === null || detail === undefined) return "";
  if (typeof detail !== "object") return JSON.stringify(detail);
  const words = Object.entries(detail)
    .filter(
      ([name, value]) =>
        value !== null && value !== undefined && name !== "operation" && name !== "filter" && name !== "ids",
    )
    .map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
    .join(", ");
  return words.length > MAX_LENGTH ? `${words.slice(0, MAX_LENGTH)}…` : words;
}

export type Target = { kind: "job" | "schedule" | "queue"; name: string } | null;

/** What the entry is about, if there is a page for it. */
export function targetOf({ action, target }: Pick<AuditResult, "action" | "target">): Target {
  if (target === null) return null;
  if (action.startsWith("jobs.") && isJobId(target)) return { kind: "job", name: target };
  if (action.startsWith("schedules.") && action !== "schedules.remove") return { kind: "schedule", name: target };
  return action === "queues.pause" || action === "queues.resume" ? { kind: "queue", name: target } : null;
}

/** The filter of the list, from the URL. Times that cannot be read are left out. */
export function auditQuery(query: URLSearchParams): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of ["actor", "action", "cursor"]) {
    const value = query.get(name)?.trim();
    if (value !== undefined && value !== "") found[name] = value;
  }
  for (const name of ["after", "before"]) {
    const ms = Date.parse(query.get(name) ?? "");
    if (!Number.isNaN(ms)) found[name] = new Date(ms).toISOString();
  }
  return found;
}
