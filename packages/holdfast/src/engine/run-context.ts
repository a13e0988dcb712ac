import type { RunContext, RunningJob } from "../job.js";

/** What a context asks of the run it belongs to. */
export interface ContextSource {
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
  readonly job: RunningJob;
  readonly token: string;
  declare readonly signal: RunContext<unknown>["signal"];
  readonly log: RunContext<unknown>["log"];
  readonly progress: RunContext<unknown>["progress"];
  readonly completeIn: RunContext<unknown>["completeIn"];
  readonly #run: ContextSource;

  constructor(run: ContextSource) {
    this.#run = run;
    this.input = run.input;
    this.job = run.job;
    this.token = run.job.id;
    this.log = (line) => run.log(line);
    this.progress = (fraction, note) => run.progress(fraction, note);
    this.completeIn = (tx, output) => run.completeIn(tx, output);
    Object.defineProperty(this, "signal", SIGNAL);
  }

  /** The signal of the context itself, or of one that was made from it by `Object.create`. */
  static signalOf(context: object | null): RunContext<unknown>["signal"] {
    if (context === null) throw new TypeError("this is not the context of a handler");
    return #run in context ? context.#run.signal : Context.signalOf(Object.getPrototypeOf(context) as object | null);
  }
}

/**
 * The signal is made when first asked for: a controller costs more than the rest of a small job. The getter is one function for all
 * contexts: with one for each, V8 would make every context a slow dictionary.
 */
const SIGNAL: PropertyDescriptor = {
  enumerable: true,
  configurable: true,
  get(this: object) {
    return Context.signalOf(this);
  },
};
