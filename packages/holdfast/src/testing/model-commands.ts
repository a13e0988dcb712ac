import type * as fastCheck from "fast-check";
import type { Arbitrary } from "fast-check";
import { ALL_QUEUES, LIMITS } from "../defaults.js";
import { STATE_NAMES, type FinishedState, type State } from "../job/state.js";
import type { JobSettings, UniqueKey } from "../store.js";
import { insightCommands, type InsightCommand } from "./model-insight-commands.js";
import { scheduleCommands, type ScheduleCommand } from "./model-schedule-commands.js";
import { EVENTS, stepCommands, type StepCommand } from "./model-step-commands.js";

/**
 * The commands of a run, as plain data. Jobs and leases are identified by their index (modulo their number) when the command
 * runs, so that a list stays valid when shrinking removes commands from it.
 */
export type Command =
  | { do: "enqueue"; jobs: JobDraft[] }
  | {
      do: "claim";
      worker: string;
      queues: string[] | null;
      types: string[] | null;
      limit: number;
      bytes: number;
      leaseMs: number;
    }
  | { do: "start" | "note"; leases: LeasePick[] }
  | { do: "extend"; leases: LeasePick[]; leaseMs: number }
  | { do: "settle"; outcomes: OutcomeDraft[] }
  | { do: "cancel" | "retry" | "remove"; jobs: JobPick[]; user: string | null; states: State[] | null }
  | { do: "update"; jobs: JobPick[]; change: UpdateDraft; user: string | null; states: State[] | null }
  | { do: "freeKey"; key: string }
  | { do: "reapExpiredLeases" | "expireOverdue" | "purgeDue"; limit: number }
  | { do: "purge"; state: FinishedState; rule: { olderThanMs: number } | { keep: number }; limit: number }
  | { do: "pause"; queue: string; by: string | null }
  | { do: "resume"; queue: string }
  | { do: "advance"; ms: number }
  | { do: "crash"; worker: string }
  /** `secondProcess`: from now on some workers use a second handle on the same database. */
  | { do: "reopen" | "secondProcess" | "maintain" }
  | ScheduleCommand
  | StepCommand
  | InsightCommand;

/** The command of this name. */
export type CommandOf<Name extends Command["do"], C = Command> = C extends { do: infer D }
  ? Name extends D
    ? C
    : never
  : never;

/** Changes to a waiting job. Null fields stay as they are. */
export interface UpdateDraft {
  queue: string | null;
  priority: number | null;
  inputBytes: number | null;
  inputType: string | null;
  tags: string[] | null;
  maxAttempts: number | null;
  expiry: { inMs: number | null } | null;
  due: { fromNow: number | null; delayMs: number } | null;
}

export interface JobDraft {
  type: string;
  queue: string;
  priority: number;
  user: string | null;
  inputBytes: number;
  maxAttempts: number;
  /** Relative to the time of the enqueue; null: now. */
  runAtFromNow: number | null;
  delayMs: number;
  expiresInMs: number | null;
  tags: string[];
  unique: UniqueKey | null;
  parent: string | null;
  settings: JobSettings | null;
  /** Repeats an earlier enqueue with the same id, whatever the other fields. */
  again: number | null;
}

/** `any`: a job ever inserted, perhaps deleted. `ended`: a dead or cancelled job. */
export interface JobPick {
  of: "any" | "ended";
  nth: number;
}

/** `held`: a lease that its worker believes it holds. `known`: any lease ever claimed, most of them lost or settled. */
export interface LeasePick {
  of: "held" | "known";
  nth: number;
}

export interface OutcomeDraft {
  lease: LeasePick;
  how: "complete" | "fail" | "give up" | "cancelled" | "release" | "triage" | "no-handler";
  delayMs: number;
  /** The handler has started, even if `start` was not called. */
  started: boolean;
  /** For a finished state, like `purgeMs`. */
  keep: boolean;
  purgeMs: number | null;
  /** For a failure: failed steps are reopened. */
  reopen: boolean;
}

const QUEUES = ["mail", "slow"];
const TYPES = ["send", "sync"];
export const WORKERS: readonly string[] = ["w1", "w2", "w3"];
const USERS = ["ann", "bob"];
const LEASE_MS = [10_000, 30_000];
const DELAY_MS = [0, 1, 1_000, 10_000, 60_000];
// Just before, at and just after the ends of leases, delays and periods, and long after all of them.
const ADVANCE_MS = [1, 1_000, 9_999, 10_000, 10_001, 29_999, 30_000, 30_001, 60_000, 3_600_000];

// Longer than every lease, delay and period: afterwards every live job is due.
const MAX_MS = 3_600_000;
const FINISHED = ["completed", "dead", "cancelled"] as const;
export const KEYS: readonly string[] = ["k1", "k2"];
export const PARENTS: readonly string[] = [
  "018f4d2e-7b3a-7c11-8a55-00000000000a",
  "018f4d2e-7b3a-7c11-8a55-00000000000b",
];

const PLAIN_JOB: JobDraft = {
  type: "send",
  queue: "mail",
  priority: 0,
  user: null,
  inputBytes: 0,
  maxAttempts: 1,
  tags: [],
  runAtFromNow: null,
  delayMs: 0,
  expiresInMs: null,
  unique: null,
  parent: null,
  settings: null,
  again: null,
};

/** Lists of commands, up to `most`. */
export function commands(fc: typeof fastCheck, most: number): Arbitrary<Command[]> {
  const nth = fc.nat(99);
  const orNull = <T>(nulls: number, values: Arbitrary<T>, others = 1): Arbitrary<T | null> =>
    fc.oneof({ weight: nulls, arbitrary: fc.constant(null) }, { weight: others, arbitrary: values });
  const lease = fc.record<LeasePick>({ of: fc.constantFrom("held", "held", "held", "known"), nth });
  const leases = fc.array(lease, { minLength: 1, maxLength: 3 });
  const jobPick = fc.record<JobPick>({ of: fc.constantFrom("any", "ended"), nth });
  const unique = fc.record<UniqueKey>({
    key: fc.constantFrom("k1", ...KEYS),
    // Rarely `forever`: such a key cannot be used again by later commands.
    scope: fc.constantFrom("live", "live", "live", "live", "waiting", "waiting", "period", "period", "forever"),
    periodMs: fc.constantFrom(10_000, 1_800_000),
    onConflict: fc.constantFrom("keep", "replace", "reject"),
  });
  const keepMs = fc.constantFrom(0, 10_000, 60_000);
  const settings = fc.record<JobSettings>(
    {
      timeoutMs: fc.constantFrom(0, 5_000),
      keepMs: fc.record(
        { completed: keepMs, dead: keepMs, cancelled: keepMs },
        { requiredKeys: [], noNullPrototype: true },
      ),
    },
    { requiredKeys: [], noNullPrototype: true },
  );
  const job = fc.record<JobDraft>({
    type: fc.constantFrom(...TYPES),
    queue: fc.constantFrom(...QUEUES),
    priority: fc.constantFrom(0, 0, 5, -5, LIMITS.priority),
    user: orNull(1, fc.constantFrom(...USERS)),
    inputBytes: fc.constantFrom(0, LIMITS.inlineInputBytes + 1),
    maxAttempts: fc.integer({ min: 1, max: 4 }),
    runAtFromNow: fc.constantFrom(null, null, -5_000, 5_000),
    delayMs: fc.constantFrom(0, 0, 0, ...DELAY_MS),
    expiresInMs: fc.constantFrom(null, null, 1, 10_000, 60_000),
    tags: fc.subarray(["red", "blue"]),
    unique: orNull(1, unique, 2),
    parent: orNull(3, fc.constantFrom(...PARENTS)),
    settings: orNull(3, settings),
    again: orNull(12, nth),
  });
  const outcome = fc.record<OutcomeDraft>({
    lease,
    how: fc.constantFrom("complete", "fail", "fail", "give up", "cancelled", "release", "triage", "no-handler"),
    delayMs: fc.constantFrom(...DELAY_MS),
    started: fc.boolean(),
    keep: fc.constantFrom(true, true, true, false),
    purgeMs: orNull(4, keepMs),
    reopen: fc.boolean(),
  });
  const choices: { weight: number; arbitrary: Arbitrary<Command> }[] = [];
  const add = <C extends Command>(weight: number, fields: { [K in keyof C]: Arbitrary<C[K]> }): void => {
    choices.push({ weight, arbitrary: fc.record(fields) as unknown as Arbitrary<Command> });
  };
  add<CommandOf<"enqueue">>(8, { do: fc.constant("enqueue"), jobs: fc.array(job, { minLength: 1, maxLength: 3 }) });
  add<CommandOf<"claim">>(8, {
    do: fc.constant("claim"),
    worker: fc.constantFrom(...WORKERS),
    queues: orNull(1, fc.subarray([...QUEUES], { minLength: 1 })),
    types: orNull(3, fc.subarray(TYPES, { minLength: 1 })),
    limit: fc.constantFrom(1, 2, 3, 10),
    bytes: fc.constantFrom(LIMITS.batchBytes, LIMITS.batchBytes, 2 * LIMITS.inlineInputBytes),
    leaseMs: fc.constantFrom(...LEASE_MS),
  });
  add<CommandOf<"start">>(5, { do: fc.constantFrom("start", "start", "start", "start", "note"), leases });
  add<CommandOf<"extend">>(3, { do: fc.constant("extend"), leases, leaseMs: fc.constantFrom(...LEASE_MS) });
  add<CommandOf<"settle">>(7, {
    do: fc.constant("settle"),
    outcomes: fc.array(outcome, { minLength: 1, maxLength: 3 }),
  });
  add<CommandOf<"cancel">>(8, {
    do: fc.constantFrom("cancel", "cancel", "retry", "retry", "retry", "remove"),
    jobs: fc.array(jobPick, { minLength: 1, maxLength: 3 }),
    user: orNull(5, fc.constantFrom(...USERS)),
    states: orNull(5, fc.subarray([...STATE_NAMES])),
  });
  add<CommandOf<"update">>(4, {
    do: fc.constant("update"),
    jobs: fc.array(jobPick, { minLength: 1, maxLength: 3 }),
    change: fc.record<UpdateDraft>({
      queue: orNull(2, fc.constantFrom(...QUEUES)),
      priority: orNull(2, fc.constantFrom(0, 5, -5)),
      inputBytes: orNull(2, fc.constantFrom(0, LIMITS.inlineInputBytes + 1)),
      inputType: orNull(3, fc.constantFrom(...TYPES)),
      tags: orNull(2, fc.subarray(["red", "blue", "green"])),
      maxAttempts: orNull(2, fc.integer({ min: 1, max: 4 })),
      expiry: orNull(2, fc.record({ inMs: fc.constantFrom(null, 1, 60_000) })),
      due: orNull(1, fc.record({ fromNow: fc.constantFrom(null, -5_000, 5_000), delayMs: fc.constantFrom(0, 1_000) })),
    }),
    user: orNull(5, fc.constantFrom(...USERS)),
    states: orNull(5, fc.subarray([...STATE_NAMES])),
  });
  add<CommandOf<"freeKey">>(1, { do: fc.constant("freeKey"), key: fc.constantFrom(...KEYS) });
  add<CommandOf<"reapExpiredLeases">>(3, {
    do: fc.constantFrom("reapExpiredLeases", "expireOverdue", "purgeDue"),
    limit: fc.constantFrom(100, 1),
  });
  add<CommandOf<"purge">>(2, {
    do: fc.constant("purge"),
    state: fc.constantFrom(...FINISHED),
    rule: fc.oneof(
      fc.record({ olderThanMs: fc.constantFrom(0, 10_000, 60_000) }),
      fc.record({ keep: fc.constantFrom(0, 1, 3) }),
    ),
    limit: fc.constantFrom(100, 1),
  });
  const queue = fc.constantFrom(...QUEUES, ALL_QUEUES);
  add<CommandOf<"pause">>(1, { do: fc.constant("pause"), queue, by: orNull(1, fc.constantFrom(...USERS)) });
  add<CommandOf<"resume">>(2, { do: fc.constant("resume"), queue });
  add<CommandOf<"advance">>(7, { do: fc.constant("advance"), ms: fc.constantFrom(...ADVANCE_MS) });
  add<CommandOf<"crash">>(1, { do: fc.constant("crash"), worker: fc.constantFrom(...WORKERS) });
  add<CommandOf<"reopen">>(2, { do: fc.constantFrom("secondProcess", "secondProcess", "reopen", "maintain") });
  const worker = fc.constantFrom(...WORKERS);
  choices.push(...scheduleCommands(fc, { nth, job, worker, types: TYPES, queues: QUEUES, users: USERS }));
  choices.push(...stepCommands(fc, { nth, job, lease }));
  choices.push(...insightCommands(fc, worker));
  return fc.array(fc.oneof(...choices), { minLength: 1, maxLength: most, size: "max" });
}

/** Deletes all finished jobs, the newest last, then enqueues with every key: the results name the holders. */
export const LOOK_AT_KEYS: readonly Command[] = [
  ...[1, 0].flatMap((keep) => FINISHED.map((state) => ({ do: "purge", state, rule: { keep }, limit: 1_000 }) as const)),
  {
    do: "enqueue",
    jobs: KEYS.map((key) => ({ ...PLAIN_JOB, unique: { key, scope: "live", periodMs: 0, onConflict: "keep" } })),
  },
];

/** Ends everything that keeps jobs waiting. */
export const CALM: readonly Command[] = [
  ...[...QUEUES, ALL_QUEUES].map((queue) => ({ do: "resume", queue }) as const),
  { do: "advance", ms: MAX_MS },
  ...EVENTS.map((event) => ({ do: "emit", event, keepMs: MAX_MS }) as const),
];

export const CLAIM_ALL: Command = {
  do: "claim",
  worker: "w1",
  queues: null,
  types: null,
  limit: LIMITS.batchJobs,
  bytes: LIMITS.batchBytes,
  leaseMs: MAX_MS,
};

/** The outcome of a worker without faults for its `nth` lease. */
export function sensibleOutcome(nth: number): OutcomeDraft {
  return {
    lease: { of: "held", nth },
    how: "triage",
    delayMs: 0,
    started: true,
    keep: true,
    purgeMs: null,
    reopen: false,
  };
}

/** A readable line; fields without information are omitted. */
export function describeCommand(command: Command): string {
  const { do: name, ...rest } = command;
  return `${name} ${JSON.stringify(rest, (_key, value: unknown) => (value === null ? undefined : value))}`.replace(
    / \{\}$/,
    "",
  );
}
