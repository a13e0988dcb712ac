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

export const MUTANTS: Record<MutantName, Mutant> = {
  "forgets steps": (store) => Object.assign(store, { steps: async () => ({ steps: [], wakes: 0 }) }),

  "loses events": (store) =>
    Object.assign(store, {
      emit: async (events) => events.map(() => ({ first: true })),
    } satisfies Partial<Store>),

  "loses the ends of children": (store) => {
    const saveSteps = store.saveSteps.bind(store);
    return Object.assign(store, {
      saveSteps: (writes) =>
        saveSteps(
          writes.map((write) =>
            write.child === null ? write : { ...write, child: { ...write.child, awaited: false } },
          ),
        ),
    } satisfies Partial<Store>);
  },

  "keeps late steps": (store) => {
    const saveSteps = store.saveSteps.bind(store);
    return Object.assign(store, {
      async saveSteps(writes) {
        // As if the store did not look at the fencing token.
        const fences = await Promise.all(writes.map(async ({ id, fence }) => (await leaseOf(store, id)) ?? fence));
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

async function leaseOf(store: Store, id: string): Promise<number | null> {
  const job = await store.get(id);
  return job?.fence ?? null;
}
