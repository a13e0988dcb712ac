import assert from "node:assert/strict";
import { eventTopic, jobTopic } from "../../job/stored-step.js";
import type { ClaimedJob, NewEvent, NewJob, Outcome, StepResult, StepWrite, Store, StoredStep } from "../../store.js";
import { claimOne, newJob, outcomeOf, settleOne } from "./builders.js";

export const DAY = 86_400_000;

/** A finished step with a result. */
export function stepOf(
  lease: Pick<ClaimedJob, "id" | "fence">,
  name: string,
  overrides: Partial<StepWrite> = {},
): StepWrite {
  return {
    id: lease.id,
    fence: lease.fence,
    name,
    member: 0,
    order: 0,
    kind: "run",
    to: "done",
    tries: 0,
    topic: null,
    value: '"done"',
    failure: null,
    forMs: null,
    wake: "last",
    child: null,
    ...overrides,
  };
}

/** A wait for an event. */
export function waitFor(lease: ClaimedJob, event: string, overrides: Partial<StepWrite> = {}): StepWrite {
  const wait = { kind: "event", to: "waiting", topic: eventTopic(event), value: null } as const;
  return stepOf(lease, `wait for ${event}`, { ...wait, ...overrides });
}

/** A wait for a child job, which is inserted with it. */
export function childOf(lease: ClaimedJob, child: NewJob, overrides: Partial<StepWrite> = {}): StepWrite {
  const wait = { kind: "job", to: "waiting", topic: jobTopic(child.id), value: null } as const;
  return stepOf(lease, "child", { ...wait, child, ...overrides });
}

export function newChild(overrides: Partial<NewJob> = {}): NewJob {
  return newJob({ queue: "children", awaited: true, ...overrides });
}

export function eventOf(name: string, payload = '{"paid":true}', keepMs: number = DAY): NewEvent {
  return { name, payload, keepMs };
}

type SavedStep = Exclude<StepResult, { status: "busy" }>;

/** Stores a step like the engine: tries again while the result is `busy`. */
export async function saveStep(store: Store, write: StepWrite): Promise<SavedStep> {
  for (;;) {
    const [result, ...rest] = await store.saveSteps([write]);
    assert.deepEqual(rest, []);
    assert.ok(result !== undefined, "saveSteps returns a result per step");
    if (result.status !== "busy") return result;
  }
}

/** Stores a step whose lease must be held. Returns it as it is stored. */
export async function keepStep(store: Store, write: StepWrite): Promise<StoredStep> {
  const result = await saveStep(store, write);
  assert.ok(result.status === "kept", `the step should be kept, and is ${result.status}`);
  return result.step;
}

export async function stepsOf(store: Store, job: string): Promise<StoredStep[]> {
  return (await store.steps(job)).steps;
}

/** The only step of a job. */
export async function onlyStep(store: Store, job: string): Promise<StoredStep> {
  const [step, ...rest] = await stepsOf(store, job);
  assert.ok(step !== undefined, "the job should have a step");
  assert.deepEqual(rest, []);
  return step;
}

export function parkOutcome(
  lease: ClaimedJob,
  { until = null, wakes = 0 }: { until?: number | null; wakes?: number } = {},
): Outcome {
  return outcomeOf(lease, "pending", { park: { until, wakes }, attempt: lease.previous.attempt });
}

/** Parks a job, like an engine that has just read its steps. */
export async function park(store: Store, lease: ClaimedJob, until: number | null = null): Promise<void> {
  const { wakes } = await store.steps(lease.id);
  assert.equal(await settleOne(store, parkOutcome(lease, { until, wakes })), "applied");
}

/** A parked job that waits for an event. */
export async function parkedFor(store: Store, event: string, overrides: Partial<NewJob> = {}): Promise<string> {
  const queue = overrides.queue ?? `waits for ${event}`;
  const [result] = await store.insert([newJob({ ...overrides, queue })]);
  assert.deepEqual(result, { status: "inserted" });
  const lease = await claimOne(store, { queues: [queue] });
  await keepStep(store, waitFor(lease, event));
  await park(store, lease);
  return lease.id;
}
