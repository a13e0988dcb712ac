import type { StoredStep } from "holdfast/store";
import type { EndedJob, Evidence } from "#src/torture/evidence.js";
import type { Action, Entry } from "#src/torture/history.js";

export const CALLED = { call: "a1", fence: 1 };
export const PAYLOAD = { job: "emitter", call: "e1" };
export const OUTPUT = [{ call: "k1", fence: 1 }];

export const EVENT = "event:paid";
export const CHILD = "job:child";

export function stepOf(name: string, overrides: Partial<StoredStep>): StoredStep {
  return {
    name,
    member: 0,
    order: 0,
    kind: "run",
    state: "done",
    fence: 1,
    tries: 0,
    topic: null,
    value: null,
    failure: null,
    startedAt: 0,
    endedAt: 1,
    until: null,
    ...overrides,
  };
}

export function endedJob(id: string, type: string, output: unknown): NonNullable<EndedJob> {
  return { id, type, state: "completed", output: JSON.stringify(output), error: null };
}

const MAIN = { job: "main", fence: 1 };

/** A step with a function, a wait for an event, and a child; the job parks for both, and nothing goes wrong. */
export const ACTIONS: readonly Action[] = [
  { did: "claimed", ...MAIN },
  { did: "run began", ...MAIN },
  { did: "function began", ...MAIN, step: "a", call: "a1" },
  { did: "function ended", ...MAIN, step: "a", call: "a1" },
  { did: "step returned", ...MAIN, step: "a", value: CALLED },
  { did: "wait began", job: "main", step: "b", member: 0 },
  { did: "wait stored", job: "main", step: "b", member: 0 },
  { did: "run ended", ...MAIN, error: "PARKED" },
  { did: "topic began", topic: EVENT, call: "e1" },
  { did: "topic ended", topic: EVENT, call: "e1", first: true },
  { did: "claimed", job: "main", fence: 2 },
  { did: "run began", job: "main", fence: 2 },
  { did: "step returned", job: "main", fence: 2, step: "a", value: CALLED },
  { did: "step returned", job: "main", fence: 2, step: "b", value: PAYLOAD },
  { did: "wait began", job: "main", step: "c", member: 0 },
  { did: "wait stored", job: "main", step: "c", member: 0 },
  { did: "run ended", job: "main", fence: 2, error: "PARKED" },
  { did: "topic began", topic: CHILD, call: null },
  { did: "topic ended", topic: CHILD, call: null, first: null },
  { did: "claimed", job: "main", fence: 3 },
  { did: "run began", job: "main", fence: 3 },
  { did: "step returned", job: "main", fence: 3, step: "c", value: OUTPUT },
  { did: "run ended", job: "main", fence: 3, error: null },
];

interface Parts {
  actions?: readonly Action[];
  steps?: readonly StoredStep[];
  jobs?: Readonly<Record<string, EndedJob>>;
  asleep?: Evidence["asleep"];
}

export const STEPS: readonly StoredStep[] = [
  stepOf("a", { value: JSON.stringify(CALLED) }),
  stepOf("b", { kind: "event", topic: EVENT, value: JSON.stringify(PAYLOAD) }),
  stepOf("c", { kind: "job", topic: CHILD, fence: 2, value: JSON.stringify(OUTPUT) }),
];

/** Evidence of a run without a violation, except in the parts that are given. */
export function evidence({ actions = ACTIONS, steps = STEPS, jobs = {}, asleep = [] }: Parts = {}): Evidence {
  const ended: Record<string, EndedJob> = {
    main: endedJob("main", "torture.main", [CALLED, PAYLOAD, OUTPUT]),
    emitter: endedJob("emitter", "torture.emitter", []),
    child: endedJob("child", "torture.child", OUTPUT),
    ...jobs,
  };
  return {
    plan: {
      seed: 1,
      runs: [
        {
          index: 0,
          steps: [
            { name: "a", kind: "function" },
            { name: "b", kind: "event" },
            { name: "c", kind: "child" },
          ],
          faults: [],
          emits: [{ event: "paid", delayMs: 0, faults: [] }],
          children: { c: [{ fails: false, faults: [] }] },
        },
      ],
    },
    jobs: [{ main: "main", emitters: { paid: "emitter" } }],
    history: actions.map((action, at): Entry => ({ at, pid: 1, ...action })),
    ended: new Map(Object.entries(ended)),
    steps: new Map([["main", steps]]),
    asleep,
  };
}

/** The history with more entries after the first one that matches. */
export function after(isIt: (action: Action) => boolean, ...more: Action[]): Action[] {
  const at = ACTIONS.findIndex(isIt) + 1;
  if (at === 0) throw new Error("no entry matches");
  return [...ACTIONS.slice(0, at), ...more, ...ACTIONS.slice(at)];
}

/** The steps, one of them changed. */
export function withStep(name: string, changes: Partial<StoredStep>): StoredStep[] {
  return STEPS.map((step) => (step.name === name ? { ...step, ...changes } : step));
}
