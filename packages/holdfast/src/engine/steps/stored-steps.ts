import { LIMITS } from "../../defaults.js";
import { StepChangedError, TooManyStepsError } from "../../job/step-errors.js";
import type { StepKind, Store, StoredStep } from "../../store.js";

const KINDS: Readonly<Record<StepKind, string>> = {
  run: "a function",
  sleep: "a sleep",
  event: "a wait for an event",
  job: "a child job",
};

/** The steps of one job as they are stored, read once per run of its handler and kept up to date with what the run stores. */
export class StoredSteps {
  readonly #byName = new Map<string, Map<number, StoredStep>>();
  /** Of the steps that this run has begun. */
  readonly #places = new Map<string, number>();
  #bytes = 0;
  #nextPlace = 0;

  get isEmpty(): boolean {
    return this.#byName.size === 0;
  }

  /** How often a wait had ended while the job was leased, when the steps were read. */
  wakes = 0;

  async read(store: Store, job: string): Promise<void> {
    const { steps, wakes } = await store.steps(job);
    for (const step of steps) this.set(step);
    this.wakes = wakes;
  }

  set(step: StoredStep): void {
    let members = this.#byName.get(step.name);
    if (members === undefined) this.#byName.set(step.name, (members = new Map()));
    this.#bytes += (step.value?.length ?? 0) - (members.get(step.member)?.value?.length ?? 0);
    members.set(step.member, step);
    this.#nextPlace = Math.max(this.#nextPlace, step.order + 1);
  }

  /** Null: it is not stored yet. Throws if it was a step of another kind. */
  get(name: string, kind: StepKind, member = 0): StoredStep | null {
    const step = this.#byName.get(name)?.get(member) ?? null;
    if (step !== null && step.kind !== kind) throw new StepChangedError(name, KINDS[step.kind], KINDS[kind]);
    return step;
  }

  /** The place of a step in the order in which the handler began them. Throws if the job may not have another one. */
  place(name: string): number {
    const known = this.#byName.get(name)?.values().next().value?.order ?? this.#places.get(name);
    if (known !== undefined) return known;
    if (this.#nextPlace >= LIMITS.steps) throw new TooManyStepsError(`the job has ${LIMITS.steps} steps, the maximum`);
    if (this.#bytes >= LIMITS.stepBytes) {
      throw new TooManyStepsError(
        `the results of the job's steps take ${this.#bytes} bytes; the limit is ${LIMITS.stepBytes}`,
      );
    }
    this.#places.set(name, this.#nextPlace);
    return this.#nextPlace++;
  }
}
