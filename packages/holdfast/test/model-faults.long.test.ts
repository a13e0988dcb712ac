import { describe, expect, it } from "vitest";
import type { Clock } from "#src/clock.js";
import type { Store } from "#src/store.js";
import { compareWithModel, StoreMismatchError, type ComparedStore } from "#src/testing/model-run.js";
import { inMemory } from "./model-scene.js";

const TIMEOUT_MS = 120_000;

/** Faults put in front of a store that is right. */
const FAULTS: Record<string, (store: Store) => Partial<Store>> = {
  "forgets to extend": () => ({ extend: (leases) => Promise.resolve(leases.map(() => "kept")) }),
  "ignores the fence of an outcome": (store) => ({
    async settle(outcomes) {
      const jobs = await Promise.all(outcomes.map(({ id }) => store.get(id)));
      return store.settle(outcomes.map((outcome, at) => ({ ...outcome, fence: jobs[at]?.fence ?? outcome.fence })));
    },
  }),
  "cancels nothing": () => ({ cancel: (ids) => Promise.resolve(ids.map(() => "cancelled")) }),
  "claims from paused queues": () => ({ pause: () => Promise.resolve() }),
  "fires a schedule whatever became of it": (store) => ({
    async fire(firings) {
      const found = await Promise.all(firings.map(({ name }) => store.getSchedule(name)));
      return store.fire(firings.map((firing, at) => ({ ...firing, version: found[at]?.version ?? firing.version })));
    },
  }),
  "forgets a schedule's slots when it is changed": (store) => ({
    async putSchedule(schedule, version) {
      const stored = await store.getSchedule(schedule.name);
      if (version === null || stored?.version !== version) return store.putSchedule(schedule, version);
      await store.removeSchedule(schedule.name);
      return store.putSchedule(schedule, null);
    },
  }),
  "forgets who paused a queue": (store) => ({ pause: (queue) => store.pause(queue) }),
  "loses the fingerprint of a failure": (store) => ({
    settle: (outcomes) =>
      store.settle(
        outcomes.map((outcome) => ({
          ...outcome,
          error:
            outcome.to === "failed" && outcome.error !== null ? { ...outcome.error, fingerprint: null } : outcome.error,
        })),
      ),
  }),
  "misses transitions of cancelled jobs": (store) => ({
    async transitions(cursor, limit) {
      const page = await store.transitions(cursor, limit);
      return page && { ...page, transitions: page.transitions.filter(({ to }) => to !== "cancelled") };
    },
  }),
  "returns a transition twice": (store) => ({
    async transitions(cursor, limit) {
      const page = await store.transitions(cursor, limit);
      const again = page?.transitions.filter(({ to }) => to === "dead") ?? [];
      return page && { ...page, transitions: [...page.transitions, ...again] };
    },
  }),
  "keeps the older example of an error group": (store) => ({
    recordErrors: (groups) => store.recordErrors(groups.map((group) => ({ ...group, example: "the first" }))),
  }),
  "merges history that has changed": (store) => ({
    async mergeHistory({ record, replaced }) {
      const { resolution, at } = record;
      const { records } = await store.history({ resolution, from: at, to: at + 1, limit: 100, after: null });
      const writers = new Set(replaced.map(({ writer }) => writer));
      return store.mergeHistory({ record, replaced: records.filter(({ writer }) => writers.has(writer)) });
    },
  }),
  "counts one job too few ahead": (store) => ({
    countAhead: async (before, atMost) => Math.max(0, (await store.countAhead(before, atMost)) - 1),
  }),
  "loses every third job": (store) => {
    let count = 0;
    return {
      insert: async (jobs) =>
        Promise.all(
          jobs.map(async (job) => {
            const [result] = ++count % 3 === 0 ? [] : await store.insert([job]);
            return result ?? { status: "inserted" };
          }),
        ),
    };
  },
};

describe.concurrent("the comparison", () => {
  it.each(Object.keys(FAULTS))(
    "catches a store that %s, and shows it again from the seed it prints",
    async (name) => {
      const faulty = async (clock: Clock): Promise<ComparedStore> => {
        const right = await inMemory(clock);
        const faults = FAULTS[name]?.(right.store) ?? {};
        const store = new Proxy(right.store, {
          get: (target, key) => Reflect.get(Object.hasOwn(faults, key) ? faults : target, key) as unknown,
        });
        return { ...right, store };
      };
      // A seed of its own: what is shown here is that a fault is caught and replayed, not luck.
      const first = await compareWithModel(faulty, { runs: 300, seed: 1 }).catch((error: unknown) => error);
      expect(first).toBeInstanceOf(StoreMismatchError);
      const { message, seed: printed } = first as StoreMismatchError;
      expect(message).toContain(`HOLDFAST_SEED=${printed} npm test`);
      await expect(compareWithModel(faulty, { runs: 300, seed: printed })).rejects.toThrow(message.split("\n")[0]);
    },
    TIMEOUT_MS,
  );
});
