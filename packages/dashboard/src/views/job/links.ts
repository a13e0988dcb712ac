import { hrefOf } from "../../app/router.js";

/** The list of jobs with a filter. */
export function jobsHref(tokens: Readonly<Record<string, string>>): string {
  return hrefOf("/jobs", { q: filterText(tokens) });
}

/** A filter as it is typed: values that would be read as something else are in quotation marks. */
export function filterText(tokens: Readonly<Record<string, string>>): string {
  return Object.entries(tokens)
    .map(([field, value]) => `${field}:${/^[^\s",*~<>\\]+$/.test(value) ? value : quote(value)}`)
    .join(" ");
}

function quote(value: string): string {
  return `"${value.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}

export function jobHref(id: string): string {
  return hrefOf(`/jobs/${encodeURIComponent(id)}`);
}
