import { setTimeout as sleep } from "node:timers/promises";
import type { Store } from "holdfast";

/** A store that breaks a rule on purpose. The tests of the checker run it: each of these must be found. */
type Mutant = (store: Store) => Store;

export type MutantName =
  | "forgets steps"
  | "loses events"
  | "loses the ends of children"
  | "keeps late steps"
  | "loses a job"
  | "changes results";

const NEVER = { runAt: Date.UTC(2100, 0), delayMs: 0 };
const SLOW_MS = 2_500;

export const MUTANTS: Record<MutantName, Mutant> = {
  "forgets steps": (store) => {
    const steps = store.steps.bind(store);
    return Object.assign(store, {
      async steps(job) {
        const read = await steps(job);
        return { ...read, steps: read.steps.filter(({ kind }) => kind !== "run") };
      },
    } satisfies Partial<Store>);
  },

  "loses events": (store) =>
    Object.assign(store, {
      emit: async (events) => events.map(() => ({ first: true })),
    } satisfies Partial<Store>),

  "loses the ends of children": (store) => {
    const settle = store.settle.bind(store);
    return Object.assign(store, {
      async settle(outcomes) {
        const results = await settle(outcomes);
        for (const { id } of outcomes) {
          const { type, parent } = (await store.get(id)) ?? {};
          if (type === "torture.child" && parent != null) await store.update([{ id: parent, due: NEVER }]);
        }
        return results;
      },
    } satisfies Partial<Store>);
  },

  "keeps late steps": (store) => {
    const saveSteps = store.saveSteps.bind(store);
    const delayed = new Set<string>();
    return Object.assign(store, {
      async saveSteps(writes) {
        // As if the store did not compare the fencing token.
        const fences = await Promise.all(writes.map(async ({ id, fence }) => (await store.get(id))?.fence ?? fence));
        // The run that holds the lease is slow, so that the late one is first.
        const slow = writes.filter(({ id, fence }, at) => fence > 1 && fence === fences[at] && !delayed.has(id));
        for (const { id } of slow) delayed.add(id);
        if (slow.length > 0) await sleep(SLOW_MS);
        return saveSteps(writes.map((write, at) => ({ ...write, fence: fences[at] as number })));
      },
    } satisfies Partial<Store>);
  },

  "loses a job": (store) => {
    const claim = store.claim.bind(store);
    return Object.assign(store, {
      async claim(request) {
        const claimed = await claim(request);
        return { ...claimed, jobs: claimed.jobs.filter(({ type, fence }) => type !== "torture.main" || fence < 3) };
      },
    } satisfies Partial<Store>);
  },

  "changes results": (store) => {
    const steps = store.steps.bind(store);
    return Object.assign(store, {
      async steps(job) {
        const read = await steps(job);
        return {
          ...read,
          steps: read.steps.map((step) => (step.kind === "run" ? { ...step, value: '{"call":"other"}' } : step)),
        };
      },
    } satisfies Partial<Store>);
  },
};
