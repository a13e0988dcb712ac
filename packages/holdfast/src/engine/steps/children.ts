import { LIMITS } from "../../defaults.js";
import { InvalidOptionError } from "../../errors.js";
import type { JobType } from "../../job/job.js";
import { fromJson } from "../../job/json.js";
import { ChildFailedError } from "../../job/step-errors.js";
import { readSpawnOptions, type ChildEnd, type SpawnAllOptions } from "../../job/step-types.js";
import { jobTopic } from "../../job/stored-step.js";
import { childId } from "../../job/uuid.js";
import type { NewJob, StepWrite, StoredStep } from "../../store.js";
import { cancelJobs } from "./cancel-children.js";
import type { Steps } from "./steps.js";

interface Children {
  type: JobType;
  inputs: readonly unknown[];
  options: SpawnAllOptions;
}

/** A child job, and the wait for its output. */
export async function spawnOne(
  steps: Steps,
  step: string,
  { type, input, options }: { type: JobType; input: unknown; options: SpawnAllOptions },
): Promise<unknown> {
  const [child] = await waitForAll(steps, step, { type, inputs: [input], options }, "last");
  return outputsOf(steps, step, [child as StoredStep])[0];
}

/** A child job for each input, and the wait for all of them. */
export async function spawnAll(steps: Steps, step: string, children: Children): Promise<unknown> {
  if (!Array.isArray(children.inputs))
    throw new InvalidOptionError("inputs", "must be an array; each item is the input of one job");
  if (children.inputs.length > LIMITS.children) {
    throw new InvalidOptionError("inputs", `has ${children.inputs.length} items; the limit is ${LIMITS.children}`);
  }
  const { ifFailed, options } = readSpawnOptions(children.options);
  const ended = await waitForAll(steps, step, { ...children, options }, ifFailed === "stop" ? "failure" : "last");
  if (ifFailed === "keep") return ended.map(endOf);
  if (ifFailed === "stop" && ended.some(({ state }) => state === "failed")) {
    const open = ended.filter(({ state }) => state === "waiting").map(childOf);
    await cancelJobs(steps.engine, open);
  }
  return outputsOf(steps, step, ended);
}

async function waitForAll(
  steps: Steps,
  step: string,
  { type, inputs, options }: Children,
  wake: StepWrite["wake"],
): Promise<StoredStep[]> {
  const { options: checked } = readSpawnOptions(options);
  await steps.active(() =>
    Promise.all(inputs.map((input, member) => begin({ steps, step, type, input, options: checked, member, wake }))),
  );
  const members = (): StoredStep[] => inputs.map((_, member) => steps.stored.get(step, "job", member) as StoredStep);
  const hasEnded = (): boolean => {
    const all = members();
    return (
      all.every(({ state }) => state !== "waiting") ||
      (wake === "failure" && all.some(({ state }) => state === "failed"))
    );
  };
  await steps.wait(null, hasEnded);
  return members();
}

/** Stores the wait for one child, with the child. Does nothing if an earlier run has. */
async function begin(child: {
  steps: Steps;
  step: string;
  type: JobType;
  input: unknown;
  options: SpawnAllOptions;
  member: number;
  wake: StepWrite["wake"];
}): Promise<void> {
  const { steps, step, member, wake } = child;
  const id = childId(steps.id, step, member);
  const wait = { kind: "job", to: "waiting", member, wake, topic: jobTopic(id) } as const;
  const stored = steps.stored.get(step, "job", member);
  if (stored === null) {
    await steps.save(step, { ...wait, child: await newChild(child, id) });
    return;
  }
  if (stored.state !== "waiting" || stored.endedAt === null) return;
  // It had failed, and the job was retried: so is the child.
  await steps.engine.store.retry([id]);
  await steps.save(step, wait);
}

async function newChild(
  { steps, type, input, options }: { steps: Steps; type: JobType; input: unknown; options: SpawnAllOptions },
  id: string,
): Promise<NewJob> {
  const { engine, run } = steps;
  const { user } = run.lease.job;
  const built = await engine.enqueuer
    .forParent(run.lease.job)
    .build(type, input, { ...options, id, ...(user !== null && { user }) });
  return { ...built, awaited: true };
}

function childOf({ topic }: StoredStep): string {
  return (topic ?? "").slice(jobTopic("").length);
}

/** Throws the failure of the first child that did not complete. */
function outputsOf(steps: Steps, step: string, children: readonly StoredStep[]): unknown[] {
  const failed = children.find(({ state }) => state === "failed");
  if (failed === undefined) return children.map(({ value }) => fromJson(value ?? "{}"));
  const failure = failed.failure ?? { message: "unknown", code: null };
  throw steps.failure(step, new ChildFailedError(step, childOf(failed), failure));
}

function endOf(child: StoredStep): ChildEnd {
  const id = childOf(child);
  if (child.state === "done") return { id, state: "completed", output: fromJson(child.value ?? "{}"), error: null };
  const { message = "unknown", code = null, state = "dead" } = child.failure ?? {};
  return { id, state, output: null, error: { message, code } };
}
