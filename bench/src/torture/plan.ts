import { seededRandom, type Random } from "./random.js";

/** What a step of the main job does. Steps of one `together` group run at once. */
export type StepKind =
  | "function"
  | "flaky"
  | "together"
  | "event"
  | "event in time"
  | "nap"
  | "long nap"
  | "child"
  | "children";

export interface PlannedStep {
  name: string;
  kind: StepKind;
}

/** Where a fault is injected, relative to what happens there. `during`: some milliseconds after a call of the store began. */
export type Moment = "before" | "inside" | "during" | "after";

/** What a fault interrupts. `step`: a step of the main job; `child end` and `emit` happen in other jobs. */
export type Place = "step" | "save" | "park" | "emit" | "child end" | "claim";

/** One fault. It is injected once, in the process that first gets there. */
export interface Fault {
  /** Unique within the round. */
  id: string;
  place: Place;
  moment: Moment;
  /** The step, for `step` and `save`. */
  step?: string;
  /** How many times to pass the place before. */
  skip: number;
  action: "kill" | "pause";
  /** For `during`: after this long. */
  delayMs: number;
}

/** A job that emits an event. */
export interface PlannedEmit {
  event: string;
  delayMs: number;
  faults: Fault[];
}

/** A main job with everything around it. */
export interface PlannedRun {
  index: number;
  steps: PlannedStep[];
  /** Faults in the main job. */
  faults: Fault[];
  emits: PlannedEmit[];
  /** Faults in its children, by step and member. */
  children: Record<string, { fails: boolean; faults: Fault[] }[]>;
}

export interface RoundPlan {
  seed: number;
  runs: PlannedRun[];
}

export const STEPS = 20;
/** Members of a step that spawns several children. */
const MEMBERS = 3;
const KINDS: readonly StepKind[] = [
  ...Array.from({ length: 10 }, (): StepKind => "function"),
  "flaky",
  "together",
  "together",
  "together",
  "event",
  "event",
  "event in time",
  "child",
  "children",
  "nap",
];

/** Every place of a job where a run must be interrupted at least once; consecutive runs take one after the other. */
const PLACES: readonly Pick<Fault, "place" | "moment" | "step">[] = [
  ...Array.from({ length: STEPS }, (_, at) => nameOf(at)).flatMap((step) => [
    { place: "step", moment: "before", step } as const,
    { place: "step", moment: "inside", step } as const,
    { place: "save", moment: "during", step } as const,
    { place: "step", moment: "after", step } as const,
  ]),
  ...(["park", "emit", "child end"] as const).flatMap((place) => [
    { place, moment: "before" } as const,
    { place, moment: "during" } as const,
    { place, moment: "after" } as const,
  ]),
  { place: "claim", moment: "after" },
];

/** How many consecutive runs are interrupted at every place. */
export const PLACES_COUNT: number = PLACES.length;

/** The plan of a round. It depends on nothing but its arguments, so that a failing round can be repeated. */
export function planRound(seed: number, runs: number): RoundPlan {
  const random = seededRandom(seed);
  return { seed, runs: Array.from({ length: runs }, (_, index) => planRun(random, seed, index, runs)) };
}

function planRun(random: Random, seed: number, index: number, runs: number): PlannedRun {
  const steps = planSteps(random);
  const emits = steps
    .filter(({ kind }) => kind === "event" || kind === "event in time")
    .map(({ name }): PlannedEmit => ({ event: eventOf(seed, index, name), delayMs: random.below(1_500), faults: [] }));
  const children: PlannedRun["children"] = {};
  for (const { name, kind } of steps) {
    if (kind === "child") children[name] = [{ fails: false, faults: [] }];
    if (kind === "children") {
      const failing = random.chance(0.3) ? random.below(MEMBERS) : -1;
      children[name] = Array.from({ length: MEMBERS }, (_, member) => ({ fails: member === failing, faults: [] }));
    }
  }
  const run: PlannedRun = { index, steps, faults: [], emits, children };
  const first = PLACES[(seed * runs + index) % PLACES.length] as (typeof PLACES)[number];
  addFault(random, run, first, random.chance(0.2));
  for (let more = random.below(3); more > 0; more--) addFault(random, run, random.pick(PLACES), random.chance(0.3));
  return run;
}

function planSteps(random: Random): PlannedStep[] {
  const single = KINDS.filter((kind) => kind !== "together").map((kind) => [kind]);
  const group = KINDS.filter((kind) => kind === "together");
  const kinds = random.shuffled([...single, group]).flat();
  const isLong = random.chance(0.05);
  return kinds.map((kind, at) => ({ name: nameOf(at), kind: kind === "nap" && isLong ? "long nap" : kind }));
}

function nameOf(at: number): string {
  return `s${String(at + 1).padStart(2, "0")}`;
}

export function eventOf(seed: number, run: number, step: string): string {
  return `torture:${seed}:${run}:${step}`;
}

function addFault(
  random: Random,
  run: PlannedRun,
  { place, moment, step }: Pick<Fault, "place" | "moment" | "step">,
  isPause: boolean,
): void {
  const fault: Fault = {
    id: `${run.index}-${countFaults(run)}`,
    place,
    moment,
    skip: 0,
    action: isPause && place !== "claim" ? "pause" : "kill",
    delayMs: random.below(8),
    ...(step !== undefined && { step }),
  };
  const kind = run.steps.find(({ name }) => name === step)?.kind;
  if (moment === "inside" && !isFunction(kind)) {
    // Nothing of the job runs inside of a wait: it is parked.
    delete fault.step;
    fault.place = "park";
    fault.moment = random.pick(["before", "during", "after"] as const);
  }
  if (fault.place === "park") fault.skip = random.below(2);
  if (fault.place === "emit") random.pick(run.emits).faults.push(fault);
  else if (fault.place === "child end") random.pick(Object.values(run.children).flat()).faults.push(fault);
  else run.faults.push(fault);
}

function isFunction(kind: StepKind | undefined): boolean {
  return kind === "function" || kind === "flaky" || kind === "together";
}

function countFaults({ faults, emits, children }: PlannedRun): number {
  return [{ faults }, ...emits, ...Object.values(children).flat()].reduce((sum, each) => sum + each.faults.length, 0);
}
