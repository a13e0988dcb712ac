import type { StoredJob, StoredStep } from "holdfast/store";
import type { Entry } from "./history.js";
import type { PlannedRun, RoundPlan } from "./plan.js";

/** A wait whose topic had ended, but which left its job parked. */
export interface Asleep {
  job: string;
  step: string;
  topic: string;
  /** When it was found. */
  at: number;
}

/** The jobs of a run. */
export interface RunJobs {
  main: string;
  /** By event. */
  emitters: Record<string, string>;
}

/** A job as it is stored when a round has ended; null: it does not exist. */
export type EndedJob = Pick<StoredJob, "id" | "type" | "state" | "output" | "error"> | null;

/** All that the checker looks at. */
export interface Evidence {
  plan: RoundPlan;
  jobs: readonly RunJobs[];
  history: readonly Entry[];
  /** What is stored of each job, by id: main jobs, emitters and children. */
  ended: ReadonlyMap<string, EndedJob>;
  steps: ReadonlyMap<string, readonly StoredStep[]>;
  asleep: readonly Asleep[];
}

export function isChildStep(run: PlannedRun, step: string): boolean {
  return Object.hasOwn(run.children, step);
}
