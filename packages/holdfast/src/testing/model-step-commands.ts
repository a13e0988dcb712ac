import type * as fastCheck from "fast-check";
import type { Arbitrary } from "fast-check";
import type { StepKind, StepState } from "../store.js";
import type { JobDraft, LeasePick } from "./model-commands.js";

/** The commands about steps, waits and events. */
export type StepCommand =
  | { do: "saveSteps"; steps: StepDraft[] }
  | { do: "emit"; event: string; keepMs: number }
  /** `knows`: the worker has read the steps just before. */
  | { do: "park"; lease: LeasePick; untilMs: number | null; knows: boolean; hasProgressed: boolean }
  | { do: "purgeEvents" | "repairWaits"; limit: number };

export interface StepDraft {
  lease: LeasePick;
  /** One of `STEP_NAMES`. */
  name: number;
  member: number;
  kind: StepKind;
  to: StepState;
  event: string;
  forMs: number | null;
  wake: "last" | "failure";
  /** A new child job, or (by its position) one that was enqueued before. */
  child: JobDraft | number;
}

export const STEP_NAMES: readonly string[] = ["s1", "s2", "s3"];
export const EVENTS: readonly string[] = ["e1", "e2"];

/** Commands about steps, with their weights. */
export function stepCommands(
  fc: typeof fastCheck,
  { nth, job, lease }: { nth: Arbitrary<number>; job: Arbitrary<JobDraft>; lease: Arbitrary<LeasePick> },
): { weight: number; arbitrary: Arbitrary<StepCommand> }[] {
  const step = fc.record<StepDraft>({
    lease,
    name: fc.constantFrom(0, 1, 2),
    member: fc.constantFrom(0, 0, 1),
    kind: fc.constantFrom("run", "sleep", "event", "event", "job", "job"),
    to: fc.constantFrom("waiting", "waiting", "waiting", "done", "failed"),
    event: fc.constantFrom(...EVENTS),
    forMs: fc.constantFrom(null, null, 1_000, 60_000),
    wake: fc.constantFrom("last", "failure"),
    child: fc.oneof(job, job, nth),
  });
  return [
    {
      weight: 6,
      arbitrary: fc.record({
        do: fc.constant("saveSteps" as const),
        steps: fc.array(step, { minLength: 1, maxLength: 3 }),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant("park" as const),
        lease,
        untilMs: fc.constantFrom(null, null, 1_000, 60_000),
        knows: fc.constantFrom(true, true, false),
        hasProgressed: fc.boolean(),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant("emit" as const),
        event: fc.constantFrom(...EVENTS),
        keepMs: fc.constantFrom(10_000, 1_800_000),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constantFrom("purgeEvents" as const, "repairWaits" as const),
        limit: fc.constantFrom(1, 100),
      }),
    },
  ];
}
