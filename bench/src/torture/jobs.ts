import { randomBytes } from "node:crypto";
import { job, NotRetryable, type JobType, type RunContext } from "holdfast";
import { historyFile, type Faults, type Round, type WithFaults } from "./faults.js";
import { record } from "./history.js";
import { eventOf, type Fault, type PlannedRun, type PlannedStep } from "./plan.js";

export interface MainInput extends WithFaults {
  seed: number;
  run: Pick<PlannedRun, "index" | "steps" | "children">;
}
export interface ChildInput extends WithFaults {
  fails: boolean;
}
export interface EmitterInput extends WithFaults {
  event: string;
}

/** What the function of a step returns: the call that made it, and the fencing token of its run. */
export interface CallResult {
  call: string;
  fence: number;
}

/** Validates nothing. */
interface Unchecked<Input> {
  "~standard": {
    version: 1;
    vendor: string;
    validate(value: unknown): { value: Input };
    types?: { input: Input; output: Input };
  };
}
function unchecked<Input>(): Unchecked<Input> {
  return { "~standard": { version: 1, vendor: "holdfast-bench", validate: (value) => ({ value: value as Input }) } };
}

// Every fault costs an attempt, and no job may end because of faults.
const RETRY = { maxAttempts: 1_000, backoff: { base: "20ms", factor: 1, jitter: 0 } } as const;

export interface TortureJobs {
  main: JobType<MainInput, unknown[]>;
  child: JobType<ChildInput, unknown[]>;
  emitter: JobType<EmitterInput, unknown[]>;
}

export function tortureJobs(faults: Faults): TortureJobs {
  const child = job({
    type: "torture.child",
    retry: RETRY,
    input: unchecked<ChildInput>(),
    run: (context) =>
      recorded(faults, context, async (run) => {
        const results = [await run.call("first"), await run.call("second")];
        if (context.input.fails) throw new NotRetryable("it was planned to fail");
        return results;
      }),
  });
  const emitter = job({
    type: "torture.emitter",
    retry: RETRY,
    input: unchecked<EmitterInput>(),
    run: (context) =>
      recorded(faults, context, async (run) => [
        await run.call("prepare"),
        await run.call("emit", async (call) => {
          await context.hf.emit(context.input.event, { job: context.job.id, call });
        }),
      ]),
  });
  const main = job({
    type: "torture.main",
    retry: RETRY,
    input: unchecked<MainInput>(),
    run: (context) =>
      recorded(faults, context, async (run) => {
        const results: unknown[] = [];
        for (const group of groups(context.input.run.steps))
          results.push(...(await Promise.all(group.map((step) => runStep(run, context, step, child)))));
        return results;
      }),
  });
  return { main, child, emitter };
}

/** Steps that run at once are one group. */
function groups(steps: readonly PlannedStep[]): PlannedStep[][] {
  const grouped: PlannedStep[][] = [];
  for (const step of steps) {
    const last = grouped.at(-1);
    if (step.kind === "together" && last?.[0]?.kind === "together") last.push(step);
    else grouped.push([step]);
  }
  return grouped;
}

function runStep(
  run: RecordedRun,
  context: RunContext<MainInput>,
  { name, kind }: PlannedStep,
  child: JobType<ChildInput, unknown[]>,
): Promise<unknown> {
  const { seed, round, run: planned } = context.input;
  const event = eventOf(seed, planned.index, name);
  const inputs = (): ChildInput[] => (planned.children[name] ?? []).map((each) => ({ ...each, round }));
  switch (kind) {
    case "function":
    case "together":
      return run.call(name);
    case "flaky":
      return run.call(name, undefined, { fails: 1 });
    case "event":
      return run.wait(name, () => context.waitFor(name, { event }));
    case "event in time":
      return run.wait(name, () => context.waitFor(name, { event, timeout: "10m" }));
    case "nap":
      return run.wait(name, async () => (await context.sleep(name, "20ms")) ?? null);
    case "long nap":
      return run.wait(name, async () => (await context.sleep(name, "5100ms")) ?? null);
    case "child":
      return run.wait(name, () => context.spawn(name, child, inputs()[0] as ChildInput));
    case "children":
      return run.wait(name, () => context.spawnAll(name, child, inputs(), { ifFailed: "keep" }));
  }
}

/** A run that records what it does. */
interface RecordedRun {
  /** A step with a function. `fails`: how many calls fail before. */
  call(step: string, work?: (call: string) => Promise<void>, options?: { fails: number }): Promise<unknown>;
  /** A step that waits. */
  wait(step: string, begin: () => Promise<unknown>): Promise<unknown>;
}

async function recorded<Input extends WithFaults, Output>(
  faults: Faults,
  context: RunContext<Input>,
  work: (run: RecordedRun) => Promise<Output>,
): Promise<Output> {
  const { round, faults: planned }: { round: Round; faults: readonly Fault[] } = context.input;
  const { id } = context.job;
  // The fencing token changes if this process claims the job again while it runs.
  const now = (): { job: string; fence: number } => ({ job: id, fence: context.job.fence });
  const file = historyFile(round);
  faults.know(id, { round, faults: planned });
  const wait: RecordedRun["wait"] = async (step, begin) => {
    await faults.at(id, "step", "before", step);
    const value = await begin();
    record(file, { did: "step returned", ...now(), step, value });
    await faults.at(id, "step", "after", step);
    return value;
  };
  const run: RecordedRun = {
    wait,
    call: (step, during, { fails } = { fails: 0 }) =>
      wait(step, () =>
        context.step(
          step,
          async ({ attempt }): Promise<CallResult> => {
            const call = randomBytes(6).toString("hex");
            record(file, { did: "function began", ...now(), step, call });
            await faults.at(id, "step", "inside", step);
            if (attempt <= fails) throw new Error("it was planned to fail at first");
            await during?.(call);
            record(file, { did: "function ended", ...now(), step, call });
            return { call, fence: context.job.fence };
          },
          { retry: { maxAttempts: fails + 1, backoff: { base: "10ms", jitter: 0 } } },
        ),
      ),
  };
  record(file, { did: "run began", ...now() });
  try {
    const output = await work(run);
    record(file, { did: "run ended", ...now(), error: null });
    return output;
  } catch (error) {
    const { code, name } = error as { code?: string; name: string };
    record(file, { did: "run ended", ...now(), error: code ?? name });
    throw error;
  }
}
