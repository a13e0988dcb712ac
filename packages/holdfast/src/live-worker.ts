import { DEFAULTS } from "./defaults.js";

/** The fields of a worker's record that show whether it is live. */
export interface Liveness {
  left: boolean;
  /** The time of its last heartbeat. */
  seenAt: number | string | Date;
}

/** Whether a worker is live. A killed worker does not deregister, so one without recent heartbeats counts as gone. */
export function isLive({ left, seenAt }: Liveness, now: number): boolean {
  return !left && new Date(seenAt).getTime() >= now - DEFAULTS.silentWorkerMs;
}
