import assert from "node:assert/strict";
import { isFinished, type FinishedState, type State } from "../../job/state.js";
import type { Claim, LeaseRef, Outcome, SettleResult, Store, StoredJob } from "../../store.js";

/** A lease as its worker saw it start. */
interface Leased {
  worker: string;
  fence: number;
  at: number;
  until: number;
}
/** The end of a job, and which worker ended it. */
interface Ending {
  by: string;
  to: FinishedState;
  /** Null if there was no lease: a waiting job was cancelled. */
  fence: number | null;
}

/**
 * What all workers saw, by job. The guarantees are checked with this and not with the store's own counters, which could be
 * wrong in the same way.
 */
export class History {
  readonly #leases = new Map<string, Leased[]>();
  readonly #handedBack = new Map<string, Set<number>>();
  readonly #endings = new Map<string, Ending[]>();
  #ended = 0;

  /** The number of jobs reported as ended. */
  get ended(): number {
    return this.#ended;
  }

  claimed(worker: string, claim: { at: number; jobs: readonly LeaseRef[] } | Claim, leaseMs: number): void {
    for (const { id, fence } of claim.jobs) {
      append(this.#leases, id, { worker, fence, at: claim.at, until: claim.at + leaseMs });
    }
  }

  settled(worker: string, outcome: LeaseRef & Pick<Outcome, "to">, result: SettleResult): void {
    if (result === "lost") return;
    const to = result === "cancelled" ? "cancelled" : outcome.to;
    if (to === "failed" || to === "pending") {
      const fences = this.#handedBack.get(outcome.id) ?? new Set();
      this.#handedBack.set(outcome.id, fences.add(outcome.fence));
    } else {
      this.ends(worker, outcome.id, to, outcome.fence);
    }
  }

  /** Records that a job ended, but not by its worker. */
  ends(by: string, id: string, to: FinishedState, fence: number | null = null): void {
    append(this.#endings, id, { by, to, fence });
    if (this.#endings.get(id)?.length === 1) this.#ended++;
  }

  endingOf(id: string): FinishedState | undefined {
    return this.#endings.get(id)?.[0]?.to;
  }

  /** All leases on the job, ordered by fence. */
  workersOf(id: string): string[] {
    return this.#leasesOf(id).map((lease) => lease.worker);
  }

  #leasesOf(id: string): Leased[] {
    return (this.#leases.get(id) ?? []).toSorted((a, b) => a.fence - b.fence);
  }

  /** At most one unexpired lease per job at any time; fences increase. */
  assertOneLeaseAtATime(): void {
    for (const id of this.#leases.keys()) {
      const leases = this.#leasesOf(id);
      for (const [index, next] of leases.entries()) {
        const lease = leases[index - 1];
        if (lease === undefined) continue;
        assert.notEqual(next.fence, lease.fence, `job ${id}: ${lease.worker} and ${next.worker} share a fence`);
        const free = this.#handedBack.get(id)?.has(lease.fence) === true || next.at >= lease.until;
        assert.ok(
          free,
          `job ${id}: leased to ${lease.worker} until ${lease.until}, yet to ${next.worker} at ${next.at}`,
        );
      }
    }
  }

  /** Each job ended once, by its last lease. */
  assertOneEnding(): void {
    for (const [id, all] of this.#endings) {
      // A worker that gets "cancelled" need not have ended the job: maintenance may have done it before.
      const reaped = all.find((ending) => ending.fence === null && ending.to === "cancelled");
      const endings =
        reaped === undefined ? all : all.filter((ending) => ending === reaped || ending.to !== "cancelled");
      assert.equal(endings.length, 1, `job ${id} ended ${endings.length} times: ${JSON.stringify(endings)}`);
      const last = this.#leasesOf(id).at(-1);
      const fence = endings[0]?.fence;
      if (last === undefined || typeof fence !== "number") continue;
      assert.ok(fence >= last.fence, `job ${id}: ended by fence ${fence} after ${last.worker} had claimed it`);
    }
  }

  /** The record agrees with the history. */
  assertSeen(job: StoredJob, { complete }: { complete: boolean } = { complete: true }): void {
    const ending = this.endingOf(job.id);
    if (complete || ending !== undefined) {
      assert.equal(isFinished(job.state) ? job.state : undefined, ending, `job ${job.id}: record and history`);
    }
    const last = this.#leasesOf(job.id).at(-1)?.fence ?? 0;
    assert.ok(
      complete ? job.fence === last : job.fence >= last,
      `job ${job.id}: fence ${job.fence}, last seen ${last}`,
    );
  }
}

function append<T>(map: Map<string, T[]>, id: string, value: T): void {
  const known = map.get(id);
  if (known === undefined) map.set(id, [value]);
  else known.push(value);
}

/** Every record of the store, page by page. */
export async function allRecords(store: Store): Promise<Map<string, StoredJob>> {
  const records = new Map<string, StoredJob>();
  let cursor: string | null = null;
  do {
    const page = await store.list({}, { limit: 1_000, cursor });
    for (const job of page.jobs) {
      assert.ok(!records.has(job.id), `job ${job.id} is listed twice`);
      records.set(job.id, job);
    }
    cursor = page.cursor;
  } while (cursor !== null);
  return records;
}

/** Enqueued = waiting + leased + finished + purged, by the records and by the store's own counters. */
export async function assertNothingVanished(store: Store, enqueued: number, purged: number): Promise<void> {
  const records = await allRecords(store);
  assert.equal(records.size + purged, enqueued, "records and purged jobs make up all jobs");
  const counted = new Map<State, number>();
  for (const row of (await store.stats()).counts) counted.set(row.state, (counted.get(row.state) ?? 0) + row.count);
  const recorded = new Map<State, number>();
  for (const job of records.values()) recorded.set(job.state, (recorded.get(job.state) ?? 0) + 1);
  if (!store.capabilities.exactCounts) {
    assert.ok((counted.get("completed") ?? 0) <= (recorded.get("completed") ?? 0), "no job is counted twice");
    counted.delete("completed");
    recorded.delete("completed");
  }
  assert.deepEqual(counted, recorded, "stats and records agree");
}
