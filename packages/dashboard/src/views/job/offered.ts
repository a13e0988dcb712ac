import type { JobDetail } from "holdfast/admin";

export type ActionName = "retry" | "promote" | "cancel" | "edit" | "rerun" | "rerun-same" | "delete";

export interface Roles {
  operator: boolean;
  admin: boolean;
  /** Retry and cancel: also the role user. */
  own: boolean;
}

type ActionJob = Pick<JobDetail, "state" | "dueAt" | "cancelRequestedAt">;

/** What the caller may do with a job in its state; the most likely one first. */
export function actionsFor({ state, dueAt, cancelRequestedAt }: ActionJob, may: Roles, now: number): ActionName[] {
  const isWaiting = state === "pending" || state === "failed";
  const isLeased = state === "claimed" || state === "running";
  const isLater = dueAt !== null && Date.parse(dueAt) > now;
  const wanted: [ActionName, boolean][] = [
    ["retry", may.own && (state === "dead" || state === "cancelled")],
    ["promote", may.operator && isWaiting && isLater],
    ["rerun", may.operator && !isWaiting],
    ["edit", may.operator && isWaiting],
    ["cancel", may.own && (isWaiting || (isLeased && cancelRequestedAt === null))],
    ["rerun-same", may.operator],
    // A failed job keeps its attempts with "Run now", and gets fresh ones with this.
    ["retry", may.own && state === "failed"],
    ["delete", may.admin && !isLeased],
  ];
  return wanted.filter(([, isOffered]) => isOffered).map(([name]) => name);
}
