import assert from "node:assert/strict";
import { LIMITS } from "../../defaults.js";
import {
  add,
  addAll,
  claim,
  claimOne,
  failureOf,
  finish,
  insertOne,
  key,
  LEASE_MS,
  newJob,
  recordOf,
  settleOne,
  stateOf,
} from "./builders.js";
import type { DefineCase } from "./scene.js";

const carrier = (n: number): string =>
  JSON.stringify({ traceparent: `00-${String(n).padStart(32, "0")}-00f067aa0ba902b7-01` });

export function traceCases(test: DefineCase): void {
  test("claim and get return the trace context", async (scene) => {
    const { store } = scene;
    const id = await add(store, { trace: carrier(1) });
    const job = await claimOne(store);
    assert.equal(job.trace, carrier(1));
    await finish(store, job);
    assert.equal((await recordOf(store, id)).trace, carrier(1));
    const [listed] = (await store.list({}, { limit: 1, cursor: null })).jobs;
    assert.equal(listed?.trace, carrier(1));
  });

  test("each job of a batch has its own trace context", async ({ store }) => {
    const traces = [carrier(1), null, carrier(2), null];
    // With a key, with tags, with a large input and plain: a store may write them in different ways.
    const jobs = [
      newJob({ trace: traces[0] ?? null, unique: key("k") }),
      newJob({ trace: null, tags: ["t"] }),
      newJob({ trace: traces[2] ?? null, input: `"${"x".repeat(2_000)}"` }),
      newJob({ trace: null, unique: key("l") }),
    ];
    const ids = await addAll(store, jobs);
    const claimed = new Map((await claim(store)).map((job) => [job.id, job.trace]));
    assert.deepEqual(
      ids.map((id) => claimed.get(id)),
      traces,
    );
  });

  test("returns any trace context unchanged, up to the limit", async ({ store }) => {
    const odd = `{"baggage":"it's \\"quoted\\" \\\\ \\u0000 {}, naïve 漢字 \u{1f680}"}`;
    const spare = LIMITS.traceBytes - Buffer.byteLength(odd) - 1;
    for (const trace of [odd, `${odd} ${"x".repeat(spare)}`]) {
      await add(store, { trace });
      assert.equal((await claimOne(store)).trace, trace);
    }
  });

  test("every transition keeps the trace context", async ({ store, clock }) => {
    const id = await add(store, { trace: carrier(1) });
    const failing = await claimOne(store);
    assert.equal(await settleOne(store, failureOf(failing, "it broke")), "applied");
    const released = await claimOne(store);
    await finish(store, released, "pending");
    await claimOne(store);
    await clock.advance(LEASE_MS);
    const lost = await claimOne(store);
    await finish(store, lost, "dead");
    assert.deepEqual(await store.retry([id]), ["retried"]);
    assert.deepEqual(
      [released, lost, await claimOne(store)].map((job) => [job.id, job.trace]),
      [released, lost, lost].map(() => [id, carrier(1)]),
    );
  });

  test("replace overwrites the trace context", async ({ store }) => {
    for (const trace of [carrier(2), null]) {
      const id = await add(store, { trace: carrier(1), unique: key(`k ${trace}`), queue: `q ${trace}` });
      const newcomer = newJob({ trace, unique: key(`k ${trace}`, { onConflict: "replace" }), queue: `q ${trace}` });
      assert.deepEqual(await insertOne(store, newcomer), { status: "duplicate", of: id, replaced: true });
      assert.equal((await claimOne(store, { queues: [`q ${trace}`] })).trace, trace);
      assert.equal(await stateOf(store, id), "claimed");
    }
  });

  test.needing(["transactions"], "insertIn stores the trace context", async (scene) => {
    const transaction = await scene.begin();
    const jobs = [newJob({ trace: carrier(1) }), newJob({ trace: carrier(2), unique: key("k") })];
    await scene.store.insertIn(transaction.tx, jobs);
    await transaction.commit();
    const traces = (await claim(scene.store)).map((job) => job.trace);
    assert.deepEqual(new Set(traces), new Set([carrier(1), carrier(2)]));
  });
}
