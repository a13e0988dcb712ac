// What can be done with many jobs: for which states, by which roles, and in which words. Pure.
import type { CountResult, JobConditions, JobSummary } from "holdfast/admin";
import { countText, listed, plural } from "../../app/format.js";
import type { IconName } from "../../ui/icon.js";
import { STATES, type State } from "./filter.js";

export type ActionName = "retry" | "cancel" | "time" | "priority" | "delete";

export interface Action {
  name: ActionName;
  label: string;
  icon: IconName;
  role: "operator" | "admin";
  /** The role user may do it with its own jobs, one by one. */
  ofUser: boolean;
  /** Jobs in other states are skipped. */
  states: readonly State[];
  key?: string;
  /** "12 jobs", "more than 10,000 jobs" → the button. */
  verb: (jobs: string) => string;
  /** What happens with them. */
  effects: readonly string[];
}

export const ACTIONS: readonly Action[] = [
  {
    name: "retry",
    label: "Retry",
    icon: "retry",
    role: "operator",
    ofUser: true,
    states: ["failed", "dead", "cancelled"],
    key: "r",
    verb: (jobs) => `Retry ${jobs}`,
    effects: [
      "They run again now, with fresh attempts",
      "Jobs whose unique key another job holds meanwhile are skipped",
    ],
  },
  {
    name: "cancel",
    label: "Cancel",
    icon: "cancelled",
    role: "operator",
    ofUser: true,
    states: ["pending", "failed", "claimed", "running"],
    verb: (jobs) => `Cancel ${jobs}`,
    effects: ["Waiting jobs do not run", "Running jobs are asked to stop. A handler that ignores the signal completes"],
  },
  {
    name: "time",
    label: "Change time",
    icon: "clock",
    role: "operator",
    ofUser: false,
    states: ["pending", "failed"],
    verb: (jobs) => `Change the time of ${jobs}`,
    effects: [],
  },
  {
    name: "priority",
    label: "Priority",
    icon: "priority",
    role: "operator",
    ofUser: false,
    states: ["pending", "failed"],
    verb: (jobs) => `Change the priority of ${jobs}`,
    effects: ["Jobs with a higher priority run first"],
  },
  {
    name: "delete",
    label: "Delete",
    icon: "trash",
    role: "admin",
    ofUser: false,
    states: ["pending", "failed", "completed", "dead", "cancelled"],
    verb: (jobs) => `Delete ${jobs}`,
    effects: ["They are deleted with their input, output and log. This cannot be undone"],
  },
];

/** The jobs of an action. */
export type Target =
  | { kind: "ids"; jobs: readonly JobSummary[] }
  | { kind: "filter"; conditions: JobConditions; createdBefore: string };

export function canApply({ states }: Action, target: Target): boolean {
  if (target.kind === "ids") return target.jobs.some(({ state }) => states.includes(state));
  return target.conditions.state?.some((state) => states.includes(state)) ?? true;
}

export function idsFor({ states }: Action, jobs: readonly JobSummary[]): string[] {
  return jobs.filter(({ state }) => states.includes(state)).map(({ id }) => id);
}

/** The filter of an action: only the states that it is for, and no job that was enqueued after they were selected. */
export function filterFor(
  { states }: Action,
  { conditions, createdBefore }: Extract<Target, { kind: "filter" }>,
): JobConditions {
  const before = conditions.createdBefore;
  return {
    ...conditions,
    state: (conditions.state ?? STATES).filter((state) => states.includes(state)),
    createdBefore: before !== undefined && Date.parse(before) < Date.parse(createdBefore) ? before : createdBefore,
  };
}

/** "3 running jobs are skipped: only waiting jobs can be changed". */
export function skippedText({ states }: Action, jobs: readonly JobSummary[]): string | null {
  const skipped = jobs.filter(({ state }) => !states.includes(state));
  if (skipped.length === 0) return null;
  const parts = STATES.map((state) => ({ state, count: skipped.filter((job) => job.state === state).length }))
    .filter(({ count }) => count > 0)
    .map(({ state, count }) => `${count} ${state}`);
  return `Skipped: ${parts.join(", ")}. Only ${listed(states)} jobs can be chosen`;
}

/** "1 job", "12,408 jobs", "more than 10,000 jobs". */
export function jobsText(count: CountResult): string {
  return count.exact ? plural(count.count, "job") : `more than ${countText(count).slice(2)} jobs`;
}
