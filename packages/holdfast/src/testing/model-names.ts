import type { LeaseRef } from "../store.js";

const ID_START = "01900000-0000-7000-8000-";

/** A sequential UUIDv7, so that ids sort by creation and runs repeat exactly. */
export function idOf(n: number): string {
  return ID_START + String(n).padStart(12, "0");
}

/** The item at `nth` modulo the length; undefined if the array is empty. */
export function pick<T>(all: readonly T[], nth: number): T | undefined {
  return all[nth % all.length];
}

/** Replaces ids by job numbers and times by their distance from the start, which are easier to read. */
export function readable(text: string, start: number): string {
  return text
    .replaceAll(new RegExp(`"?'?${ID_START}0*(\\d+)'?"?`, "g"), "job $1")
    .replaceAll(/\b\d{13}\b/g, (instant) => `start+${Number(instant) - start}`);
}

/** A readable name of a lease. */
export function leaseName({ id, fence }: LeaseRef): string {
  return `${id} fence ${fence}`;
}
