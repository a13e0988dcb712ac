import { DEFAULTS } from "./defaults.js";

/** What says whether a worker is there. */
export interface Heard {
  left: boolean;
  /** When it was last heard of. */
  seenAt: number | string | Date;
}

/** Whether a worker is there. One that was killed says no goodbye: it is gone once it was silent for too long. */
export function isLive({ left, seenAt }: Heard, now: number): boolean {
  return !left && new Date(seenAt).getTime() >= now - DEFAULTS.silentWorkerMs;
}
