import { hrefOf } from "./router.js";
import { quote } from "./text.js";

/** The list of jobs with a filter: `{ schedule: "nightly", state: "dead,failed" }`. */
export function jobsHref(filter: Readonly<Record<string, string>>): string {
  const tokens = Object.entries(filter).map(([field, value]) => `${field}:${field === "state" ? value : quote(value)}`);
  return hrefOf("/jobs", { q: tokens.join(" ") });
}

export function jobHref(id: string): string {
  return hrefOf(`/jobs/${encodeURIComponent(id)}`);
}

export function scheduleHref(name: string): string {
  return hrefOf(`/schedules/${encodeURIComponent(name)}`);
}
