import type { RunContext, RunningJob } from "../job.js";

/** What a context asks of the run it belongs to. */
export interface ContextSource {
  readonly id: string;
  readonly input: unknown;
  readonly job: RunningJob;
  readonly signal: RunContext<unknown>["signal"];
  log(line: string): void;
  progress(fraction: number, note?: string): void;
  completeIn(tx: unknown, output?: unknown): Promise<void>;
}

/**
 * What a handler gets. All of it is own and enumerable, and no function needs its `this`: `h({ ...context, db })` and
 * `run({ input, log })` have everything, and nothing of the engine.
 */
export class Context implements RunContext<unknown> {
  readonly input: unknown;
  declare readonly job: RunningJob;
  readonly token: string;
  declare readonly signal: RunContext<unknown>["signal"];
  readonly log: RunContext<unknown>["log"];
  readonly progress: RunContext<unknown>["progress"];
  readonly completeIn: RunContext<unknown>["completeIn"];
  readonly #run: ContextSource;

  constructor(run: ContextSource) {
    this.#run = run;
    this.input = run.input;
    this.token = run.id;
    this.log = (line) => run.log(line);
    this.progress = (fraction, note) => run.progress(fraction, note);
    this.completeIn = (tx, output) => run.completeIn(tx, output);
    Object.defineProperty(this, "job", JOB);
    Object.defineProperty(this, "signal", SIGNAL);
  }

  /** The run of the context itself, or of the one that it was made from by `Object.create`. */
  static runOf(context: object | null): ContextSource {
    if (context === null) throw new TypeError("this is not the context of a handler");
    return #run in context ? context.#run : Context.runOf(Object.getPrototypeOf(context) as object | null);
  }
}

// Made when first asked for: both cost more than the rest of a small job, and few handlers ask. A getter is one function for all
// contexts: with one for each, V8 would make every context a slow dictionary.
const JOB: PropertyDescriptor = made((run) => run.job);
const SIGNAL: PropertyDescriptor = made((run) => run.signal);

function made(value: (run: ContextSource) => unknown): PropertyDescriptor {
  return {
    enumerable: true,
    configurable: true,
    get(this: object) {
      return value(Context.runOf(this));
    },
  };
}
