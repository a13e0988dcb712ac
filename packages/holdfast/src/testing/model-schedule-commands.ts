import type * as fastCheck from "fast-check";
import type { Arbitrary } from "fast-check";
import type { ScheduleRecord, SlotReason, UniqueKey } from "../store.js";
import type { JobDraft } from "./model-commands.js";

/** What a run does to schedules, as plain data. They are picked by name, or by their place among those there are. */
export type ScheduleCommand =
  | { do: "putSchedule"; name: string; over: VersionPick; schedule: ScheduleDraft; worker: string }
  | { do: "removeSchedule"; nth: number }
  | { do: "dueSchedules"; limit: number; worker: string }
  | { do: "fire"; firings: FiringDraft[]; worker: string };

/** `none`: there should be none of that name. `right`: what is there, if only nothing. `stale`: any other that ever was. */
export interface VersionPick {
  of: "none" | "right" | "stale";
  nth: number;
}

/** Relative to now; null: not known. */
export type NextRun = number | null | "never";

export interface ScheduleDraft extends Pick<
  ScheduleRecord,
  "origin" | "type" | "queue" | "user" | "catchUp" | "overlap" | "enabled" | "tags"
> {
  cron: boolean;
  nextRun: NextRun;
  inputBytes: number;
}

export interface FiringDraft {
  nth: number;
  version: VersionPick;
  nextRun: NextRun;
  /** `on`: to the last of the slots. `stays`: as for a run by hand. `back`: by a moment. `forgotten`: there is none. */
  lastSlot: "on" | "stays" | "back" | "forgotten";
  slots: SlotDraft[];
}

export interface SlotDraft {
  /** A slot without a job is skipped. `again`: the id of one that was enqueued or fired before. */
  job: JobDraft | null;
  stretch: boolean;
  reason: SlotReason | null;
  /** As many slots like this one. */
  times: number;
}

export const SCHEDULES: readonly string[] = ["s1", "s2", "s3"];
/** The key of a schedule's runs; enqueues of their own ask for the first two as well. */
export const RUN_KEYS: Readonly<Record<string, string>> = { s1: "k1", s2: "k2" };

interface Parts {
  nth: Arbitrary<number>;
  job: Arbitrary<JobDraft>;
  worker: Arbitrary<string>;
  types: readonly string[];
  queues: readonly string[];
  users: readonly string[];
}

/** Adds the commands on schedules to the others, each with its weight. */
export function scheduleCommands(
  fc: typeof fastCheck,
  { nth, job, worker, types, queues, users }: Parts,
): { weight: number; arbitrary: Arbitrary<ScheduleCommand> }[] {
  const name = fc.constantFrom(...SCHEDULES);
  const nextRun = fc.constantFrom<NextRun>(null, "never", -60_000, -1, 0, 1, 10_000, 60_000);
  const version = (...of: VersionPick["of"][]): Arbitrary<VersionPick> =>
    fc.record({ of: fc.constantFrom(...of), nth });
  const schedule = fc.record<ScheduleDraft>({
    origin: fc.constantFrom("code", "runtime"),
    type: fc.constantFrom(...types),
    queue: fc.constantFrom(...queues),
    user: fc.constantFrom(null, ...users),
    catchUp: fc.constantFrom<ScheduleRecord["catchUp"][]>("skip", "latest", { all: 3 }),
    overlap: fc.constantFrom("allow", "skip"),
    enabled: fc.constantFrom(true, true, true, false),
    tags: fc.subarray(["red", "blue"]),
    cron: fc.boolean(),
    nextRun,
    inputBytes: fc.constantFrom(0, 2_000),
  });
  const unique = fc.constantFrom<UniqueKey["scope"][]>("live", "live", "live", "waiting", "period").chain((scope) =>
    fc.record<UniqueKey>({
      // Which key it is, its schedule decides.
      key: fc.constant("its own"),
      scope: fc.constant(scope),
      periodMs: fc.constant(10_000),
      onConflict: fc.constantFrom("keep", "keep", "reject"),
    }),
  );
  const slotJob = fc
    .tuple(job, fc.oneof(fc.constant(null), unique))
    .map(([draft, own]): JobDraft => ({ ...draft, unique: own }));
  const slot = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record<SlotDraft>({
        job: slotJob,
        stretch: fc.constant(false),
        reason: fc.constantFrom(null, null, "late"),
        times: fc.constantFrom(1, 1, 1, 1, 1, 1, 1, 12),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record<SlotDraft>({
        job: fc.constant(null),
        stretch: fc.boolean(),
        reason: fc.constantFrom("missed", null),
        times: fc.constantFrom(1, 1, 1, 12),
      }),
    },
  );
  const firing = fc.record<FiringDraft>({
    nth,
    version: version("right", "right", "right", "right", "stale"),
    nextRun,
    lastSlot: fc.constantFrom("on", "on", "on", "on", "on", "stays", "stays", "back", "forgotten"),
    slots: fc.array(slot, { maxLength: 3 }),
  });
  return [
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant("putSchedule"),
        name,
        over: version("right", "right", "right", "none", "stale"),
        schedule,
        worker,
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant("fire"),
        firings: fc.array(firing, { minLength: 1, maxLength: 3 }),
        worker,
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("dueSchedules"), limit: fc.constantFrom(10, 2, 1), worker }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("removeSchedule"), nth }) },
  ];
}
