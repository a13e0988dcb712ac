import type { RunContext, RunningJob } from "../../job/job.js";

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
  readonly idempotencyKey: string;
  declare readonly signal: RunContext<unknown>["signal"];
  readonly log: RunContext<unknown>["log"];
  readonly progress: RunContext<unknown>["progress"];
  readonly completeIn: RunContext<unknown>["completeIn"];
  readonly #run: ContextSource;

  constructor(run: ContextSource) {
    this.#run = run;
    this.input = run.input;
    this.idempotencyKey = run.id;
    this.log = (line) => run.log(line);
    this.progress = (fraction, note) => run.progress(fraction, note);
    this.completeIn = (tx, output) => (tx === RUN_OF ? (run as never) : run.completeIn(tx, output));
    Object.defineProperty(this, "job", JOB);
    Object.defineProperty(this, "signal", SIGNAL);
  }

  /** The run of the context itself, or of the one that it was made from by `Object.create`, copied from or stands for as a proxy. */
  static runOf(context: Context): ContextSource {
    for (let at: object | null = context; at !== null; at = Object.getPrototypeOf(at) as object | null) {
      if (#run in at) return at.#run;
    }
    return context.completeIn(RUN_OF) as unknown as ContextSource;
  }
}

// Known to nobody else. A proxy has no private fields, and its functions are those of the context.
const RUN_OF: unique symbol = Symbol("the run of a context");

// Made when first asked for: both cost more than the rest of a small job, and few handlers ask. A getter is one function for all
// contexts: with one for each, V8 would make every context a slow dictionary.
const JOB: PropertyDescriptor = made("job", (run) => run.job);
const SIGNAL: PropertyDescriptor = made("signal", (run) => run.signal);

function made(name: "job" | "signal", value: (run: ContextSource) => unknown): PropertyDescriptor {
  return {
    enumerable: true,
    configurable: true,
    get(this: Context) {
      return value(Context.runOf(this));
    },
    // As if it were a field.
    set(this: Context, given: unknown) {
      Object.defineProperty(this, name, { value: given, enumerable: true, configurable: true, writable: true });
    },
  };
}
