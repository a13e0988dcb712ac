import { deepStrictEqual } from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { isFinished, isLeased, isWaiting, STATE_NAMES } from "../job/state.js";
import type { JobFilter, Store, StoredJob, TransitionRecord } from "../store.js";
import type { Follower } from "./exercise-store/follower.js";
import { KEYS, PARENTS } from "./model-commands.js";
import { FINGERPRINTS } from "./model-drafts.js";
import { countLabel } from "./model-job.js";
import type { StoreModel } from "./model.js";

/** The store differs from the model or violates an invariant. */
export class Difference extends Error {}

/** Fails with the difference and the name of what was compared. */
export function same(actual: unknown, expected: unknown, what: string): void {
  try {
    deepStrictEqual(actual, expected);
  } catch (error) {
    const detail = (error as Error).message.replace(/^.*\n+/, "");
    throw new Difference(`${what} (+ the store, - the model)\n${detail}`);
  }
}

/** Fails unless the invariant holds. */
export function must(holds: boolean, what: () => string): void {
  if (!holds) throw new Difference(what());
}

// Small, so that cursors are used.
const PAGE = 7;
// Of two large inputs, each is on its own page.
const PAGE_BYTES = 1_000;
const MAX_AHEAD = 5;

/** Every job of the store that matches, read in this order and returned oldest first. */
export async function allJobs(
  store: Store,
  filter: JobFilter = {},
  order: "newest" | "oldest" = "newest",
  anyOrder = false,
): Promise<StoredJob[]> {
  const jobs: StoredJob[] = [];
  let cursor: string | null = null;
  do {
    const page = await store.list(filter, { limit: PAGE, cursor, order, anyOrder, bytes: PAGE_BYTES });
    jobs.push(...page.jobs);
    cursor = page.cursor;
  } while (cursor !== null);
  return order === "newest" ? jobs.toReversed() : jobs;
}

/** Jobs, queues and stats of the store equal the model. */
export async function compareState(store: Store, model: StoreModel, now: number): Promise<StoredJob[]> {
  const jobs = await allJobs(store);
  const expected = [...model.jobs.values()].toSorted((a, b) => a.order - b.order);
  same(jobs.map(visible), expected.map(visible), "the jobs, as listed");
  const stats = await store.stats();
  const counts = stats.counts.map((row) => [countLabel(row), row.count] as const);
  same(new Map(counts), model.counts(), "stats().counts");
  const oldestDue = model.oldestDue(now);
  same(new Map(stats.oldestDue.map(({ queue, dueMs }) => [queue, dueMs])), oldestDue, "stats().oldestDue");
  same(stats.oldestDueMs, oldestDue.size === 0 ? null : Math.max(...oldestDue.values()), "stats().oldestDueMs");
  const paused = (await store.queues()).filter((queue) => queue.paused);
  same(
    new Map(paused.map(({ queue, pausedAt, pausedBy }) => [queue, { pausedAt, pausedBy }])),
    model.paused,
    "the paused queues",
  );
  return jobs;
}

/** The history of every job equals the model. Read one by one, because lists do not contain it. */
export async function compareHistories(store: Store, model: StoreModel): Promise<void> {
  const jobs = [...model.jobs.values()];
  const found = await Promise.all(jobs.map(({ id }) => store.get(id)));
  for (const [at, { id, attempts }] of jobs.entries()) same(found[at]?.attempts, attempts, `the attempts of ${id}`);
  const shown = await Promise.all(jobs.map(({ id, user }) => store.get(id, { user: user ?? "unknown" })));
  const others = await Promise.all(jobs.map(({ id }) => store.get(id, { user: "someone else" })));
  for (const [at, { id, user }] of jobs.entries()) {
    must((shown[at] !== null) === (user !== null), () => `its own user ${user} does not find ${id}`);
    must(others[at] === null, () => `${id} of ${user} is shown to another user`);
  }
}

/** Lists by parent, priority, fingerprint and id, in both orders, the holders of keys and the jobs ahead equal the model. */
export async function compareLists(store: Store, model: StoreModel, now: number): Promise<void> {
  const jobs = [...model.jobs.values()].toSorted((a, b) => a.order - b.order);
  const someIds = jobs.filter((_, at) => at % 3 === 0).map(({ id }) => id);
  const filters: [JobFilter, (job: StoredJob) => boolean][] = [
    [{}, () => true],
    [{ priority: 5 }, ({ priority }) => priority === 5],
    [{ states: STATE_NAMES.filter(isWaiting) }, ({ state }) => isWaiting(state)],
    [{ ids: [...someIds, PARENTS[0] ?? ""] }, ({ id }) => someIds.includes(id)],
    ...FINGERPRINTS.map((fingerprint): [JobFilter, (job: StoredJob) => boolean] => [
      { fingerprint },
      (job: StoredJob) => job.error?.fingerprint === fingerprint,
    ]),
    ...PARENTS.map((parent): [JobFilter, (job: StoredJob) => boolean] => [
      { parent },
      (job: StoredJob) => job.parent === parent,
    ]),
  ];
  for (const [filter, fits] of filters) {
    const expected = jobs.filter(fits).map(({ id }) => id);
    const what = `the list by ${JSON.stringify(filter)}`;
    same(
      (await allJobs(store, filter)).map(({ id }) => id),
      expected,
      what,
    );
    same(
      (await allJobs(store, filter, "oldest")).map(({ id }) => id),
      expected,
      `${what}, oldest first`,
    );
    same(
      (await allJobs(store, filter, "newest", true)).map(({ id }) => id).toSorted(),
      expected.toSorted(),
      `${what}, in any order`,
    );
  }
  for (const job of jobs.filter(({ state }) => isWaiting(state))) {
    const { id, queue, priority, dueAt } = job;
    const expected = Math.min(model.countAhead(job, now, store.capabilities), MAX_AHEAD);
    const found = await store.countAhead({ id, queue, priority, dueAt: dueAt ?? 0 }, MAX_AHEAD);
    // Without strict order, it may be an estimate.
    if (store.capabilities.strictOrder || expected === 0) same(found, expected, `the number of jobs ahead of ${id}`);
  }
  for (const key of KEYS) same(await store.keyHolder(key), model.keyHolder(key, now), `the holder of ${key}`);
}

/**
 * The transitions of each job that the store returned equal the model. If the store does not keep their order among processes, those of an
 * id that was used again may be in another order: a process that inserts a job does not know the last transition of a deleted one.
 */
export async function compareTransitions(follower: Follower, store: Store, model: StoreModel): Promise<void> {
  const reused = store.capabilities.orderedTransitions ? new Set<string>() : model.reusedIds;
  const grouped = (transitions: readonly TransitionRecord[]): Map<string, unknown[]> =>
    new Map(
      [...new Set(transitions.map(({ id }) => id))].map((id) => {
        const own = transitions.filter((transition) => transition.id === id);
        return [id, reused.has(id) ? inAnyOrder(own) : withoutReplacements(own)];
      }),
    );
  const expected = grouped(model.transitions);
  await follower.readUntil(() => isDeepStrictEqual(grouped(follower.seen), expected));
  const seen = grouped(follower.seen);
  for (const id of new Set([...expected.keys(), ...seen.keys()])) {
    same(seen.get(id) ?? [], expected.get(id) ?? [], `the transitions of ${id}`);
  }
}

/** Without repetitions: a store may omit that a pending job was replaced. */
function inAnyOrder(transitions: readonly TransitionRecord[]): string[] {
  const texts = transitions.map(({ at, to, type, queue }) => JSON.stringify([at, to, type, queue]));
  return [...new Set(texts)].toSorted();
}

/** A store may omit that a pending job was replaced: its state is the same as before. */
function withoutReplacements(transitions: readonly TransitionRecord[]): TransitionRecord[] {
  return transitions.filter(({ to }, at) => to !== "pending" || transitions[at - 1]?.to !== "pending");
}

const IDENTITY = [
  "id",
  "type",
  "queue",
  "state",
  "priority",
  "user",
  "key",
  "tags",
  "schedule",
  "parent",
  "settings",
  "trace",
  "input",
  "output",
  "error",
] as const;
const COUNTERS = ["attempt", "maxAttempts", "losses", "releases", "fence"] as const;
const TIMES = ["runAt", "dueAt", "expiresAt", "createdAt", "finishedAt"] as const;
const LEASE = ["worker", "claimedAt", "startedAt"] as const;

/** The fields that the contract defines. It does not define when a record was updated. */
function visible(job: StoredJob): object {
  const { state } = job;
  const fields: (keyof StoredJob)[] = [...IDENTITY, ...COUNTERS, ...TIMES, ...LEASE];
  if (!isFinished(state)) fields.push("cancelRequestedAt");
  return Object.fromEntries(fields.map((field) => [field, job[field]]));
}

/**
 * Invariants checked with the store's own results, independent of the model: a mistake shared by store and model would pass
 * every comparison.
 */
export class Invariants {
  readonly #leaseEnds = new Map<string, number>();
  readonly #fences = new Map<string, number>();
  readonly #retried = new Set<string>();
  #alive = 0;

  inserted(): void {
    this.#alive++;
  }
  deleted(id: string): void {
    this.#alive--;
    this.#fences.delete(id);
    this.#retried.delete(id);
  }
  retried(id: string): void {
    this.#retried.add(id);
  }

  leased(id: string, fence: number, at: number, until: number): void {
    const end = this.#leaseEnds.get(id);
    must(
      end === undefined || end <= at,
      () => `${id} was claimed while another lease on it had ${(end ?? 0) - at} ms left`,
    );
    const before = this.#fences.get(id) ?? 0;
    must(fence > before, () => `a claim of ${id} returned fence ${fence} after ${before}`);
    this.#fences.set(id, fence);
    this.#leaseEnds.set(id, until);
  }
  extended(id: string, until: number): void {
    this.#leaseEnds.set(id, until);
  }
  settled(id: string): void {
    this.#leaseEnds.delete(id);
  }
  expired(id: string, now: number): void {
    const end = this.#leaseEnds.get(id);
    must(
      end !== undefined && end <= now,
      () => `${id} was reaped, but its lease is ${end === undefined ? "settled" : "still valid"}`,
    );
    this.#leaseEnds.delete(id);
  }

  check(jobs: readonly StoredJob[], model: StoreModel): void {
    must(
      jobs.length === this.#alive,
      () => `${this.#alive} jobs were inserted and not deleted, but ${jobs.length} exist`,
    );
    const holders = new Map<string, string>();
    for (const job of jobs) {
      const name = `${job.id} (${job.state})`;
      must(job.attempt <= job.maxAttempts, () => `${name} has used ${job.attempt} attempts of ${job.maxAttempts}`);
      must(job.fence >= (this.#fences.get(job.id) ?? 0), () => `the fence of ${name} decreased to ${job.fence}`);
      must(isFinished(job.state) === (job.dueAt === null), () => `${name} has the due time ${job.dueAt}`);
      must(isFinished(job.state) === (job.finishedAt !== null), () => `${name} has the end ${job.finishedAt}`);
      must(
        !isLeased(job.state) || this.#leaseEnds.get(job.id) === job.dueAt,
        () => `the lease of ${name} does not end at the time returned to its holder`,
      );
      if (job.key === null || !this.#holdsKey(job, model)) continue;
      const other = holders.get(job.key);
      must(other === undefined, () => `${other} and ${name} both hold the key ${job.key}`);
      holders.set(job.key, name);
    }
  }

  /** Whether a job holds its key by the definition of its scope; periods are checked by the comparison. */
  #holdsKey(job: StoredJob, model: StoreModel): boolean {
    switch (model.jobs.get(job.id)?.unique?.scope) {
      case "live":
        return !isFinished(job.state);
      case "forever":
        return true;
      case "waiting":
        return job.state === "pending" && job.fence === 0 && !this.#retried.has(job.id);
      default:
        return false;
    }
  }
}
