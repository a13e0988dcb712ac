import assert from "node:assert/strict";
import { isFinished } from "../../job/state.js";
import type { ClaimedJob, Outcome, Store } from "../../store.js";
import { addAll, claimRequest, insertAll, key, newJob, newJobs, outcomeOf, settleAll } from "./builders.js";
import { allRecords, assertNothingVanished, History } from "./history.js";
import { handlesOf, type DefineCase, type LiveScene } from "./scene.js";
import { pollInterval, randomFrom } from "./until.js";

const CLAIMERS = 8;
/** The largest batch, as a fraction of all jobs. */
const BATCH = 0.012;
/** Short, so that abandoned jobs are soon due again. Live claimers may lose leases too, which is intended. */
const LEASE_MS = 400;

export function concurrencyCases(test: DefineCase): void {
  test.live([], "A-29 E-12 eight concurrent claimers lose and duplicate no job", stampede);

  test.live([], "C-04 concurrent enqueues of one key create one job", async (scene) => {
    const handles = await handlesOf(scene, 4);
    for (const scope of ["waiting", "live", "period", "forever"] as const) {
      const jobs = newJobs(40, { queue: scope, unique: key(scope, { scope, periodMs: 60_000 }) });
      const results = (await Promise.all(jobs.map((job, index) => insertAll(pick(handles, index), [job])))).flat();
      const inserted = jobs.filter((_, index) => results[index]?.status === "inserted");
      assert.equal(inserted.length, 1, `scope ${scope}`);
      for (const result of results) {
        if (result.status !== "inserted")
          assert.deepEqual(result, { status: "duplicate", of: inserted[0]?.id, replaced: false });
      }
    }
  });

  test.live([], "concurrent inserts with the same ids create each job once", async (scene) => {
    const handles = await handlesOf(scene, 4);
    const batch = newJobs(25);
    const results = await Promise.all(Array.from({ length: 12 }, (_, index) => insertAll(pick(handles, index), batch)));
    assert.equal(results.flat().filter((result) => result.status === "inserted").length, batch.length);
    assert.equal((await allRecords(scene.store)).size, batch.length);
  });

  test.live([], "C-07 cancel races claim: each job goes to one", async (scene) => {
    const handles = await handlesOf(scene, 4);
    const ids = await addAll(scene.store, newJobs(300));
    const cancelling = Promise.all(chunksOf(ids, 20).map((chunk) => pick(handles, 0).cancel(chunk)));
    const claims = Array.from({ length: 30 }, (_, index) => pick(handles, index).claim(claimRequest({ limit: 10 })));
    const claimed = new Set((await Promise.all(claims)).flatMap((claim) => claim.jobs.map((job) => job.id)));
    const results = (await cancelling).flat();
    for (const [index, id] of ids.entries()) {
      assert.equal(results[index] === "cancelled" && claimed.has(id), false, "a cancelled job is not claimed");
      if (results[index] === "requested") assert.ok(claimed.has(id), "only a leased job is signalled");
    }
  });
}

async function stampede(scene: LiveScene): Promise<void> {
  const { store, many } = scene;
  const seed = Date.now() % 1_000_000;
  const history = new History();
  const handles = await handlesOf(scene, CLAIMERS);
  const ids = newJobs(many, { maxAttempts: 1_000 }).map((job) => job.id);
  let purged = 0;
  const done = (): boolean => history.ended === many;
  // If the store loses a job, the claimers must still end.
  const deadline = performance.now() + 60_000;
  const over = (): boolean => done() || performance.now() > deadline;

  async function enqueue(): Promise<void> {
    for (const [index, chunk] of chunksOf(ids, many / 20).entries()) {
      const jobs = chunk.map((id) => newJob({ id, maxAttempts: 1_000, priority: index % 3 }));
      const results = await insertAll(store, jobs);
      assert.ok(results.every((result) => result.status === "inserted"));
    }
  }
  async function maintain(): Promise<void> {
    while (!over()) {
      for (const job of await store.reapExpiredLeases(50))
        if (isFinished(job.to)) history.ends("maintain", job.id, job.to);
      purged += await store.purge({ state: "completed", before: null, keep: many / 5, limit: many / 50 });
      await pollInterval();
    }
  }
  async function cancelSome(random: (below: number) => number): Promise<void> {
    for (let round = 0; round < 20 && !over(); round++) {
      const some = Array.from({ length: 10 }, () => pick(ids, random(many)));
      const results = await store.cancel([...new Set(some)]);
      for (const [index, id] of [...new Set(some)].entries()) {
        if (results[index] === "cancelled") history.ends("canceller", id, "cancelled");
      }
      await pollInterval();
    }
  }

  await Promise.all([
    enqueue(),
    maintain(),
    cancelSome(randomFrom(seed)),
    ...handles.map((handle, index) =>
      claimer(`claimer ${index}`, handle, history, randomFrom(seed + index + 1), {
        batch: Math.round(many * BATCH),
        over,
      }),
    ),
  ]);

  const context = `seed ${seed}`;
  assert.ok(done(), `${context}: ${many - history.ended} jobs never ended`);
  history.assertOneLeaseAtATime();
  history.assertOneEnding();
  await assertNothingVanished(store, many, purged);
  const records = await allRecords(store);
  for (const id of ids) {
    const record = records.get(id);
    if (record !== undefined) history.assertSeen(record);
    else assert.equal(history.endingOf(id), "completed", `${context}: job ${id} is gone and had not completed`);
  }
}

/** Claims batches until all jobs have ended. Sometimes it abandons a batch, or settles it after its lease has expired. */
async function claimer(
  worker: string,
  store: Store,
  history: History,
  random: (below: number) => number,
  { batch, over }: { batch: number; over: () => boolean },
): Promise<void> {
  const late: { due: number; jobs: ClaimedJob[] }[] = [];
  async function settle(outcomes: readonly Outcome[]): Promise<void> {
    const results = await settleAll(store, outcomes);
    for (const [index, outcome] of outcomes.entries()) history.settled(worker, outcome, results[index] ?? "lost");
  }
  while (!over()) {
    const claim = await store.claim(claimRequest({ worker, limit: 1 + random(batch), leaseMs: LEASE_MS }));
    history.claimed(worker, claim, LEASE_MS);
    const overdue = late.findIndex((held) => held.due <= performance.now());
    if (overdue >= 0) await settle((late.splice(overdue, 1)[0]?.jobs ?? []).map((job) => outcomeOf(job, "completed")));
    if (claim.jobs.length === 0) await pollInterval();
    const fate = random(20);
    if (fate === 0) continue;
    if (fate === 1) {
      late.push({ due: performance.now() + LEASE_MS, jobs: claim.jobs });
      continue;
    }
    if (fate < 10) await store.start(claim.jobs.map((job) => ({ ...job, startedAt: claim.at })));
    if (fate === 10) await store.extend(claim.jobs, LEASE_MS);
    await settle(claim.jobs.map((job) => outcomeOf(job, fateOf(random(100)), { delayMs: random(50) })));
  }
}

function fateOf(percent: number): Outcome["to"] {
  if (percent < 5) return "failed";
  if (percent < 8) return "pending";
  return percent < 10 ? "dead" : "completed";
}

function pick<T>(values: readonly T[], index: number): T {
  const value = values[index % values.length];
  assert.ok(value !== undefined);
  return value;
}

function chunksOf<T>(values: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(values.length / size) }, (_, index) =>
    values.slice(index * size, (index + 1) * size),
  );
}
