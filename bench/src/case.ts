import type { Bed } from "./bed.js";
import type { Limits } from "./limits.js";

/** One measured run. Cases share trials by name: a baseline of several cases is measured once per round. */
export interface Trial<Sample = unknown> {
  name: string;
  about: string;
  /** How often it runs; every round by default. */
  rounds?: number;
  run(progress: (fraction: number) => void): Promise<Sample>;
}

/** A case: its trials, and how to compute its rows from them. */
export interface Case {
  name: string;
  trials: readonly Trial[];
  read(samples: Samples): Row[];
}

export interface Bench {
  bed: Bed;
  scale: Scale;
}
/** Null if the case does not apply to the store. */
export type MakeCase = (bench: Bench) => Case | null;

/** The size of each case. All sizes follow from the number of jobs of a drain. */
export interface Scale {
  jobs: number;
  rounds: number;
  /** Other jobs in the store during a drain. */
  background: Limits["background"];
  /** Jobs drained by the process whose memory is measured. */
  memory: number;
  large: number;
  largeBytes: number;
  /** Enqueues of one caller, and of all callers together. */
  singly: number;
  atOnce: number;
  callers: number;
  /** Latency samples of one round. */
  samples: number;
  starts: number;
  /** How long an idle process is measured. */
  watchedMs: number;
  /** Schedules that are due at the same time, and idle ones. */
  schedules: number;
  idleSchedules: number;
  /** Jobs in the store for the list case. */
  listed: number;
  /** How often the dashboard's list is opened in one round, and how long its pages are watched. */
  opens: number;
  openMs: number;
  /** Queues that are empty after use. */
  lanes: number;
}

// Pages of the dashboard load each thing at least once a minute. With few jobs, the bench itself is tested.
const MINUTE_MS = 60_000;
const FEW_JOBS = 1_000;

export function scaleOf(jobs: number, rounds: number, background: Limits["background"]): Scale {
  const within = (least: number, value: number, most: number): number =>
    Math.round(Math.min(most, Math.max(least, value)));
  return {
    jobs,
    rounds,
    background: {
      ready: jobs * background.ready,
      future: jobs * background.future,
      finished: jobs * background.finished,
      expired: jobs * background.expired,
      other: jobs * background.other,
    },
    memory: jobs * 10,
    large: Math.round(jobs / 5),
    largeBytes: 8_192,
    singly: within(50, jobs / 100, 1_000),
    atOnce: within(500, jobs / 2, 50_000),
    callers: 50,
    samples: Math.ceil(within(30, jobs / 200, 500) / rounds),
    starts: within(5, jobs / 1_000, 10),
    watchedMs: within(500, jobs / 5, 20_000),
    schedules: Math.round(jobs / 10),
    idleSchedules: jobs,
    listed: jobs * 10,
    opens: within(5, jobs / 100, 20),
    openMs: jobs > FEW_JOBS ? MINUTE_MS : 1_000,
    lanes: within(100, jobs / 10, 10_000),
  };
}

/** The results of trials, by round. */
export class Samples {
  readonly #taken = new Map<string, unknown[]>();

  add(trial: Trial, sample: unknown): void {
    const known = this.#taken.get(trial.name);
    if (known === undefined) this.#taken.set(trial.name, [sample]);
    else known.push(sample);
  }

  of<Sample>(trial: Trial<Sample>): Sample[] {
    return (this.#taken.get(trial.name) ?? []) as Sample[];
  }
}

export type Unit =
  | "jobs/s"
  | "polls/s"
  | "queries/s"
  | "calls/s"
  | "transitions/s"
  | "ms"
  | "µs"
  | "MB"
  | "%"
  | "jobs"
  | "tasks"
  | "requests"
  | "units"
  | "units/s"
  | "units/min";

/** A measured quantity: its value, and that of each round. */
export interface Figure {
  value: number;
  unit: Unit;
  rounds: number[];
}

export interface Target {
  of: "figure" | "comparison";
  bound: "at least" | "at most" | "below";
  limit: number;
  met: boolean;
}

/** One line of the report. */
export interface Row {
  name: string;
  label: string;
  figure: Figure;
  baseline: { label: string; figure: Figure } | null;
  /** The figure divided by the baseline, or the figure minus the baseline. */
  comparison: { kind: "ratio" | "difference"; value: number } | null;
  target: Target | null;
}
