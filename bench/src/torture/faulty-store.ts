import type { Store } from "holdfast";
import type { NewEvent, Outcome, StepWrite } from "holdfast/store";
import type { Faults, WithFaults } from "./faults.js";
import { record, type WaitEntry } from "./history.js";

/** Injects faults into the calls that a worker makes, and records what the store confirmed. Changes the store. */
export function injectFaults(store: Store, faults: Faults): Store {
  const claim = store.claim.bind(store);
  const saveSteps = store.saveSteps.bind(store);
  const settle = store.settle.bind(store);
  const emit = store.emit.bind(store);
  const awaited = new Set<string>();
  return Object.assign(store, {
    async claim(request) {
      const claimed = await claim(request);
      for (const { id, fence, type, input } of claimed.jobs) {
        const { round, faults: planned } = JSON.parse(input) as WithFaults;
        faults.know(id, { round, faults: planned });
        if (type === "torture.child") awaited.add(id);
        record(faults.historyOf(id) as string, { did: "claimed", job: id, fence });
      }
      for (const { id } of claimed.jobs) await faults.at(id, "claim", "after");
      return claimed;
    },

    saveSteps(writes: readonly StepWrite[]) {
      return nested(
        writes.map(({ id, name }) => ({ job: id, step: name })),
        ({ job, step }, next) => faults.around(job, "save", step, next),
        async () => {
          const waits = writes.map(({ to, topic }) => to === "waiting" && topic !== null);
          const recordWaits = (did: WaitEntry["did"], isOne: (at: number) => boolean): void => {
            for (const [at, { id, name, member }] of writes.entries()) {
              if (waits[at] === true && isOne(at))
                record(faults.historyOf(id) as string, { did, job: id, step: name, member });
            }
          };
          recordWaits("wait began", () => true);
          const results = await saveSteps(writes);
          const isStored = (at: number): boolean => results[at] !== undefined && "step" in results[at];
          recordWaits("wait stored", isStored);
          recordWaits("wait refused", (at) => !isStored(at));
          return results;
        },
      );
    },

    async settle(outcomes: readonly Outcome[]) {
      const parked = outcomes.filter(({ park }) => park !== undefined);
      const ended = outcomes.filter(({ id, to }) => awaited.has(id) && (to === "completed" || to === "dead"));
      const topics = ended.map(({ id }) => ({ file: faults.historyOf(id) as string, topic: `job:${id}`, call: null }));
      for (const { file, topic, call } of topics) record(file, { did: "topic began", topic, call });
      const results = await nested(
        [...parked.map(({ id }) => ["park", id] as const), ...ended.map(({ id }) => ["child end", id] as const)],
        ([place, job], next) => faults.around(job, place, undefined, next),
        async () => {
          const settled = await settle(outcomes);
          for (const [at, { id }] of ended.entries()) {
            const result = settled[outcomes.findIndex((outcome) => outcome.id === id)];
            const topic = topics[at] as (typeof topics)[number];
            if (result === "applied")
              record(topic.file, { did: "topic ended", topic: topic.topic, call: null, first: null });
            else record(topic.file, { did: "topic refused", topic: topic.topic });
          }
          return settled;
        },
      );
      return results;
    },

    async emit(events: readonly NewEvent[]) {
      const emitted = events.map(({ name, payload }) => {
        const { job, call } = JSON.parse(payload) as { job: string; call: string };
        return { topic: `event:${name}`, job, call, file: faults.historyOf(job) as string };
      });
      for (const { file, topic, call } of emitted) record(file, { did: "topic began", topic, call });
      return nested(
        emitted,
        ({ job }, next) => faults.around(job, "emit", undefined, next),
        async () => {
          const results = await emit(events);
          for (const [at, { file, topic, call }] of emitted.entries())
            record(file, { did: "topic ended", topic, call, first: results[at]?.first ?? false });
          return results;
        },
      );
    },

    // It would hide lost wakes. The main process repairs, and counts what that wakes.
    repairWaits: async () => 0,
  } satisfies Partial<Store>);
}

/** Wraps a call once for each item, because one call of a store is about many jobs. */
function nested<Item, Result>(
  items: readonly Item[],
  wrap: (item: Item, next: () => Promise<Result>) => Promise<Result>,
  call: () => Promise<Result>,
): Promise<Result> {
  return items.reduceRight((next: () => Promise<Result>, item) => () => wrap(item, next), call)();
}
