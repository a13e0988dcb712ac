import type * as fastCheck from "fast-check";
import type { Arbitrary } from "fast-check";
import type { ScheduleRecord, SlotReason, UniqueKey } from "../store.js";
import type { JobDraft } from "./model-commands.js";

/** Commands on schedules, as plain data. Schedules are chosen by name, or by their index among the existing ones. */
export type ScheduleCommand =
  | { do: "putSchedule"; name: string; over: VersionPick; schedule: ScheduleDraft; worker: string }
  | { do: "removeSchedule"; nth: number }
  | { do: "dueSchedules"; limit: number; worker: string }
  | { do: "fire"; firings: FiringDraft[]; worker: string };

/** `none`: expects that the schedule does not exist. `right`: the current version. `stale`: any earlier version. */
export interface VersionPick {
  of: "none" | "right" | "stale";
  nth: number;
}

/** Relative to now; null: not computed. */
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
  /** `on`: to the last of the slots. `stays`: as for a manual run. `back`: to an earlier time. `forgotten`: to null. */
  lastSlot: "on" | "stays" | "back" | "forgotten";
  slots: SlotDraft[];
}

export interface SlotDraft {
  /** A slot without a job is skipped. `again`: with the id of an earlier job. */
  job: JobDraft | null;
  stretch: boolean;
  reason: SlotReason | null;
  /** The number of slots like this one. */
  times: number;
}

export const SCHEDULES: readonly string[] = ["s1", "s2", "s3"];
/** The unique key of a schedule's runs. Direct enqueues use the first two as well. */
export const RUN_KEYS: Readonly<Record<string, string>> = { s1: "k1", s2: "k2" };

interface Parts {
  nth: Arbitrary<number>;
  job: Arbitrary<JobDraft>;
  worker: Arbitrary<string>;
  types: readonly string[];
  queues: readonly string[];
  users: readonly string[];
}

/** The commands on schedules, with their weights. */
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
      // The key depends on the schedule.
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
