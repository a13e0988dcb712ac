import type { LeaseRef } from "../store.js";

const ID_START = "01900000-0000-7000-8000-";

/** A UUIDv7 that counts up, so that ids sort as they were made and runs repeat exactly. */
export function idOf(n: number): string {
  return ID_START + String(n).padStart(12, "0");
}

/** The `nth` of all, counted round and round; undefined if there is none. */
export function pick<T>(all: readonly T[], nth: number): T | undefined {
  return all[nth % all.length];
}

/** Names jobs by their number and instants by their distance from the start: nobody reads UUIDs and milliseconds. */
export function readable(text: string, start: number): string {
  return text
    .replaceAll(new RegExp(`"?'?${ID_START}0*(\\d+)'?"?`, "g"), "job $1")
    .replaceAll(/\b\d{13}\b/g, (instant) => `start+${Number(instant) - start}`);
}

/** A lease, for people. */
export function leaseName({ id, fence }: LeaseRef): string {
  return `${id} fence ${fence}`;
}
