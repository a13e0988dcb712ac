import type { JobType, RunContext, RunningJob } from "../../job/job.js";
import type { SpawnAllOptions, SpawnOptions, StepName } from "../../job/step-types.js";
import type { Steps } from "../steps/steps.js";

/** What a context needs from the run it belongs to. */
export interface ContextSource {
  readonly id: string;
  readonly input: unknown;
  readonly job: RunningJob;
  readonly signal: RunContext<unknown>["signal"];
  readonly hf: RunContext<unknown>["hf"];
  log(line: string): void;
  progress(fraction: number, note?: string | object): void;
  completeIn(tx: unknown, output?: unknown): Promise<void>;
  readonly steps: Steps;
}

/**
 * The argument of a handler. All properties are own and enumerable, and no function uses `this`: `run({ input, log })` and
 * `h({ ...context, db })` work, and neither exposes the engine.
 */
export class HandlerContext implements RunContext<unknown> {
  readonly input: unknown;
  declare readonly job: RunningJob;
  readonly idempotencyKey: string;
  declare readonly signal: RunContext<unknown>["signal"];
  declare readonly hf: RunContext<unknown>["hf"];
  readonly log: RunContext<unknown>["log"];
  readonly progress: RunContext<unknown>["progress"];
  readonly completeIn: RunContext<unknown>["completeIn"];
  readonly step: RunContext<unknown>["step"];
  readonly sleep: RunContext<unknown>["sleep"];
  readonly waitFor: RunContext<unknown>["waitFor"];
  readonly spawn: RunContext<unknown>["spawn"];
  readonly spawnAll: RunContext<unknown>["spawnAll"];
  readonly #run: ContextSource;

  constructor(run: ContextSource) {
    this.#run = run;
    this.input = run.input;
    this.idempotencyKey = run.id;
    this.log = (line) => run.log(line);
    this.progress = (fraction, note) => run.progress(fraction, note);
    this.completeIn = (tx, output) => (tx === RUN_OF ? (run as never) : run.completeIn(tx, output));
    // The types of results are those that the caller's function has.
    this.step = (name, call, options) => run.steps.step(name, call, options) as never;
    this.sleep = (name, time) => run.steps.sleep(name, time);
    this.waitFor = (name: StepName, on: { event: string }) => run.steps.waitFor(name, on) as never;
    this.spawn = ((name: StepName, type: JobType, input?: unknown, options?: SpawnOptions) =>
      run.steps.spawn(name, type, input, options)) as RunContext<unknown>["spawn"];
    this.spawnAll = ((name: StepName, type: JobType, inputs: readonly unknown[], options?: SpawnAllOptions) =>
      run.steps.spawnAll(name, type, inputs, options)) as RunContext<unknown>["spawnAll"];
    Object.defineProperty(this, "job", JOB);
    Object.defineProperty(this, "signal", SIGNAL);
    Object.defineProperty(this, "hf", CLIENT);
  }

  /** The run of a context. Also finds it for a copy, a proxy, or an object made by `Object.create(context)`. */
  static runOf(context: HandlerContext): ContextSource {
    for (let at: object | null = context; at !== null; at = Object.getPrototypeOf(at) as object | null) {
      if (#run in at) return at.#run;
    }
    return context.completeIn(RUN_OF) as unknown as ContextSource;
  }
}

// A proxy or copy has no private field, but still has the context's `completeIn`. Called with this symbol, which never leaves
// this module, that function returns the run.
const RUN_OF: unique symbol = Symbol("the run of a context");

// Created on first use: each costs more than all other parts of a small job, and few handlers use them. All contexts share one
// getter function: with one function each, V8 would turn every context into a slow dictionary object.
const JOB: PropertyDescriptor = lazyProperty("job", (run) => run.job);
const SIGNAL: PropertyDescriptor = lazyProperty("signal", (run) => run.signal);
const CLIENT: PropertyDescriptor = lazyProperty("hf", (run) => run.hf);

function lazyProperty(name: "job" | "signal" | "hf", value: (run: ContextSource) => unknown): PropertyDescriptor {
  return {
    enumerable: true,
    configurable: true,
    get(this: HandlerContext) {
      return value(HandlerContext.runOf(this));
    },
    // Assignable, like an ordinary property.
    set(this: HandlerContext, given: unknown) {
      Object.defineProperty(this, name, { value: given, enumerable: true, configurable: true, writable: true });
    },
  };
}
