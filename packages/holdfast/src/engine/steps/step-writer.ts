import type { Clock } from "../../clock.js";
import type { StepResult, StepWrite, Store } from "../../store.js";
import { Batcher } from "../enqueue/batcher.js";
import type { Emitter } from "../events/events.js";
import { retryWhileBusy } from "../retry-busy.js";
import { retryDuringOutage } from "./outage-retry.js";

type SavedStep = Exclude<StepResult, { status: "busy" }>;

/** Stores steps of all handlers of a client, in batches. During an outage it repeats a write until the lease expires. */
export class StepWriter {
  readonly #engine: { clock: Clock; events: Emitter };
  readonly #batcher: Batcher<StepWrite, StepResult>;

  constructor({ store, ...engine }: { store: Store; clock: Clock; events: Emitter }) {
    this.#engine = engine;
    this.#batcher = new Batcher((writes) => store.saveSteps(writes), { bytesOf });
  }

  async save(write: StepWrite, lease: { readonly deadline: number }): Promise<SavedStep> {
    const saved = await retryWhileBusy(this.#engine.clock, lease, () =>
      retryDuringOutage(this.#engine, "store a step", lease, async () => {
        const result = await this.#batcher.add(write);
        return result.status === "busy" ? "busy" : result;
      }),
    );
    return saved === "busy" ? { status: "lost" } : saved;
  }
}

function bytesOf({ value, child }: StepWrite): number {
  return (value?.length ?? 0) + (child?.input.length ?? 0);
}
