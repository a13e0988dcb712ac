import fc from "fast-check";
import { STATE_NAMES, type State } from "#src/job/state.js";
import type { JobFilter, NewJob, Store } from "#src/store.js";
import type { Found, ListLimits, Order } from "#src/stores/list-plan.js";
import type { FakeClock } from "#src/testing/clock.js";
import { addAll, claim, finish, MINUTE, newJob } from "#src/testing/exercise-store/builders.js";

export const START: number = Date.UTC(2026, 0, 1);

/** Tight limits, so that a few hundred jobs reach every branch of the plan, and limits like those of the stores. */
export const LIST_LIMITS: readonly ListLimits[] = [
  { maxRead: 7, alwaysRead: 0, maxSorted: 0 },
  { maxRead: 25, alwaysRead: 5, maxSorted: 60 },
  { maxRead: 60, alwaysRead: 0, maxSorted: 1_000 },
  { maxRead: 10_000, alwaysRead: 1_000, maxSorted: 10_000 },
];

/** A job as the filter sees it. */
export interface Listed {
  seq: number;
  id: string;
  priority: number;
  parent: string | null;
  type: string;
  queue: string;
  state: State;
  user: string | null;
  tags: readonly string[];
  schedule: string | null;
  createdAt: number;
}

const TYPES = ["t0", "t1", "t2", "rare"] as const;
const QUEUES = ["default", "slow", "rare"] as const;
const PARENTS = ["018f4d2e-7b3a-7c11-8a55-00000000000a", "018f4d2e-7b3a-7c11-8a55-00000000000b"] as const;
const rarely = <Name>(index: number, usual: Name, rare: Name): Name => (index % 37 === 5 ? rare : usual);

/** Jobs in batches, in every state. After every second batch `gap` skips job numbers; the clock advances, or is set back once. */
export async function fill(store: Store, clock: FakeClock, gap: () => Promise<void>): Promise<void> {
  for (let batch = 0; batch < 6; batch++) {
    const jobs = Array.from({ length: 40 }, (_, nth): NewJob => {
      const index = 40 * batch + nth;
      return newJob({
        type: rarely(index, TYPES[(index + batch) % 3] as string, "rare"),
        queue: rarely(index + 3, QUEUES[index % 7 === 0 ? 1 : 0], "rare"),
        user: index % 3 === 0 ? null : rarely(index + 9, "ada", "bob"),
        tags: index % 4 === 0 ? [] : rarely(index + 1, ["common"], ["common", "odd"]),
        schedule: index % 5 === 0 ? { name: rarely(index + 7, "digest", "yearly"), slot: index } : null,
        priority: index % 2,
        parent: index % 3 === 1 ? null : rarely(index + 11, PARENTS[0], PARENTS[1]),
        delayMs: index % 6 === 0 ? 60 * MINUTE : 0,
      });
    });
    await addAll(store, jobs);
    const ends = ["completed", "completed", "dead", "cancelled", "failed"] as const;
    for (const [nth, job] of (await claim(store, { limit: 24 })).entries()) {
      const to = ends[nth % 8];
      if (to !== undefined) await finish(store, job, to);
      else if (nth % 2 === 0) await store.start([{ ...job, startedAt: clock.now() }]);
    }
    // Two batches per block, created at two different times.
    if (batch % 2 === 1) await gap();
    // Set back once: jobs with higher numbers are then older.
    if (batch === 3) clock.setWall(START + 30 * MINUTE);
    else await clock.advance(20 * MINUTE);
  }
}

const some = <Name extends string>(names: readonly Name[]): fc.Arbitrary<Name[] | undefined> =>
  fc.option(fc.subarray([...names]), { nil: undefined, freq: 2 });
const one = (...names: string[]): fc.Arbitrary<string | undefined> =>
  fc.option(fc.constantFrom(...names), { nil: undefined, freq: 2 });
const instant = fc.option(
  fc.integer({ min: -5, max: 130 }).map((minutes) => START + minutes * MINUTE),
  { nil: undefined, freq: 2 },
);

export const anyFilter: fc.Arbitrary<JobFilter> = fc.record({
  states: some(STATE_NAMES),
  types: some([...TYPES, "unused"]),
  queues: some([...QUEUES, "nowhere"]),
  user: one("ada", "bob", "unknown"),
  tag: one("common", "odd", "none"),
  schedule: one("digest", "yearly", "never"),
  parent: one(...PARENTS),
  priority: fc.option(fc.constantFrom(0, 1, 2), { nil: undefined, freq: 2 }),
  createdAfter: instant,
  createdBefore: instant,
});

/** The same with some of these jobs by id, and one that does not exist. */
export function withIds(filter: JobFilter, jobs: readonly Listed[], every: number | null): JobFilter {
  if (every === null) return filter;
  return { ...filter, ids: [...jobs.filter(({ seq }) => seq % every === 0).map(({ id }) => id), PARENTS[0]] };
}

/** Sizes and orders of pages, and whether the filter also has ids. */
export const anyPage: fc.Arbitrary<{ limit: number; order: Order; every: number | null }> = fc.record({
  limit: fc.constantFrom(1, 4, 50, 1_000),
  order: fc.constantFrom("newest", "oldest"),
  every: fc.constantFrom(null, null, null, 2, 50),
});

/** The expected result, by a plain filter over all jobs. */
export function matching(jobs: readonly Listed[], filter: JobFilter, order: Order): number[] {
  const { ids, states, types, queues, user, tag, schedule, parent, priority, createdAfter, createdBefore } = filter;
  return jobs
    .filter(
      (job) =>
        (ids?.includes(job.id) ?? true) &&
        (parent === undefined || job.parent === parent) &&
        (priority === undefined || job.priority === priority) &&
        (states?.includes(job.state) ?? true) &&
        (types?.includes(job.type) ?? true) &&
        (queues?.includes(job.queue) ?? true) &&
        (user === undefined || job.user === user) &&
        (tag === undefined || job.tags.includes(tag)) &&
        (schedule === undefined || job.schedule === schedule) &&
        (createdAfter === undefined || job.createdAt >= createdAfter) &&
        (createdBefore === undefined || job.createdAt < createdBefore),
    )
    .map(({ seq }) => seq)
    .toSorted((a, b) => (order === "newest" ? b - a : a - b));
}

/** All pages of a finder, from cursor to cursor. */
export async function throughout(
  find: (page: { limit: number; cursor: string | null; order: Order }) => unknown,
  { limit, order }: { limit: number; order: Order },
): Promise<number[]> {
  const all: number[] = [];
  let cursor: number | null = null;
  for (let pages = 0; pages < 1_000; pages++) {
    const { seqs, stoppedAt } = (await find({
      limit,
      cursor: cursor === null ? null : String(cursor),
      order,
    })) as Found;
    all.push(...seqs.slice(0, limit));
    const next: number | null = seqs.length > limit ? (seqs[limit - 1] ?? null) : stoppedAt;
    if (next === null) return all;
    if (cursor !== null && (order === "newest" ? next >= cursor : next <= cursor))
      throw new Error(`the cursor does not advance: ${cursor}, then ${next}`);
    cursor = next;
  }
  throw new Error("paging does not end");
}
