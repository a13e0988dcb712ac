import assert from "node:assert/strict";
import { LIMITS } from "../../defaults.js";
import type { OperationEnd, Store } from "../../store.js";
import { newOperation } from "./builders.js";
import { handlesOf, type DefineCase } from "./scene.js";

const LEASE_MS = 10_000;
const ODD = `{"odd":"naïve 漢字 \u{1f9d1} it's \\\\ \\" $1"}`;

export function operationCases(test: DefineCase): void {
  storedCases(test);
  leaseCases(test);
  raceCases(test);
}

function lease(owner: string): { owner: string; leaseMs: number } {
  return { owner, leaseMs: LEASE_MS };
}

function endOf(id: string, owner: string, more: Partial<OperationEnd> = {}): OperationEnd {
  return { id, owner, state: "done", summary: "{}", ...more };
}

function storedCases(test: DefineCase): void {
  test("without operations there is nothing to claim", async ({ store }) => {
    const { id } = newOperation();
    assert.deepEqual(await store.operations(), []);
    assert.equal(await store.getOperation(id), null);
    assert.equal(await store.claimOperation(lease("a")), null);
    assert.equal(await store.stopOperation(id), false);
    assert.equal(await store.saveOperation({ id, ...lease("a"), summary: "{}" }), "lost");
    assert.equal(await store.endOperation(endOf(id, "a")), false);
    assert.equal(await store.purgeOperations({ before: 1e15, keep: 0 }), 0);
  });

  test("stores an operation with its lease", async ({ store, clock }) => {
    const operation = newOperation({ startedAt: 1_234, summary: ODD });
    await store.putOperation(operation, lease("a"));
    const expected = {
      id: operation.id,
      startedAt: 1_234,
      summary: ODD,
      state: "running",
      endedAt: null,
      stopRequested: false,
      owner: "a",
      leaseUntil: clock.now() + LEASE_MS,
      abandoned: false,
    };
    assert.deepEqual(await store.getOperation(operation.id), expected);
    assert.deepEqual(await store.operations(), [expected]);
    await store.putOperation({ ...operation, summary: "{}" }, lease("b"));
    assert.deepEqual(await store.operations(), [expected], "an operation with this id existed");
  });

  test("lists operations newest first", async ({ store }) => {
    const [one, two, three] = [
      newOperation({ startedAt: 5 }),
      newOperation({ startedAt: 9 }),
      newOperation({ startedAt: 5 }),
    ];
    for (const operation of [one, two, three]) await store.putOperation(operation, lease("a"));
    const ids = (await store.operations()).map(({ id }) => id);
    assert.deepEqual(ids, [two.id, three.id, one.id]);
  });

  test("stores a summary and a plan of the maximum size", async ({ store, clock }) => {
    const text = (bytes: number): string => JSON.stringify("x".repeat(bytes - 2));
    const summary = text(LIMITS.operationSummaryBytes);
    const plan = text(LIMITS.operationPlanBytes);
    const { id } = newOperation();
    await store.putOperation({ id, startedAt: 1, summary, plan }, lease("a"));
    await clock.advance(LEASE_MS);
    const claimed = await store.claimOperation(lease("b"));
    assert.equal(claimed?.plan, plan);
    assert.equal(claimed?.summary, summary);
  });

  test("purge deletes ended operations by age and number", async ({ store, clock }) => {
    const running = newOperation({ startedAt: 0 });
    await store.putOperation(running, lease("a"));
    const ended = [1, 2, 3, 4].map((startedAt) => newOperation({ startedAt }));
    for (const operation of ended) {
      await store.putOperation(operation, lease("a"));
      await store.endOperation(endOf(operation.id, "a"));
      await clock.advance(1_000);
    }
    const startsOf = async (): Promise<number[]> => (await store.operations()).map(({ startedAt }) => startedAt);
    const secondEnd = (await store.getOperation(ended[1]?.id ?? ""))?.endedAt ?? 0;
    assert.equal(await store.purgeOperations({ before: secondEnd, keep: 10 }), 1);
    assert.deepEqual(await startsOf(), [4, 3, 2, 0]);
    assert.equal(await store.purgeOperations({ before: 0, keep: 1 }), 2);
    assert.equal(await store.purgeOperations({ before: 0, keep: 1 }), 0);
    assert.deepEqual(await startsOf(), [4, 0]);
    assert.equal(await store.purgeOperations({ before: 1e15, keep: 0 }), 1);
    assert.deepEqual(await startsOf(), [0], "a running operation is never deleted");
  });
}

function leaseCases(test: DefineCase): void {
  test("saving progress extends the lease", async ({ store, clock }) => {
    const { id, ...more } = newOperation();
    await store.putOperation({ id, ...more }, lease("a"));
    await clock.advance(LEASE_MS - 1);
    assert.equal(await store.saveOperation({ id, ...lease("a"), summary: ODD }), "kept");
    await clock.advance(LEASE_MS - 1);
    assert.equal(await store.claimOperation(lease("b")), null);
    const stored = await store.getOperation(id);
    assert.deepEqual([stored?.summary, stored?.abandoned], [ODD, false]);
    await clock.advance(1);
    assert.equal((await store.getOperation(id))?.abandoned, true);
    assert.equal(
      await store.saveOperation({ id, ...lease("a"), summary: "{}" }),
      "kept",
      "no other process claimed it",
    );
    assert.equal((await store.getOperation(id))?.abandoned, false);
  });

  test("a lease of 0 ms releases the operation", async ({ store }) => {
    const { id, ...more } = newOperation();
    await store.putOperation({ id, ...more }, lease("a"));
    assert.equal(await store.saveOperation({ id, owner: "a", leaseMs: 0, summary: ODD }), "kept");
    const claimed = await store.claimOperation(lease("b"));
    assert.deepEqual([claimed?.id, claimed?.owner, claimed?.summary], [id, "b", ODD]);
  });

  test("claims abandoned operations, the oldest first", async ({ store, clock }) => {
    const [one, two] = [newOperation({ startedAt: 2 }), newOperation({ startedAt: 1, plan: '{"n":2}' })];
    for (const operation of [one, two]) await store.putOperation(operation, lease("a"));
    await clock.advance(LEASE_MS);
    const later = newOperation({ startedAt: 0 });
    await store.putOperation(later, lease("a"));
    const claimed = await store.claimOperation(lease("b"));
    assert.deepEqual(claimed, {
      ...two,
      state: "running",
      endedAt: null,
      stopRequested: false,
      owner: "b",
      leaseUntil: clock.now() + LEASE_MS,
      abandoned: false,
    });
    assert.equal((await store.claimOperation(lease("c")))?.id, one.id);
    assert.equal(await store.claimOperation(lease("d")), null);
  });

  test("a lost lease changes nothing", async ({ store, clock }) => {
    const { id, ...more } = newOperation();
    await store.putOperation({ id, ...more }, lease("a"));
    await clock.advance(LEASE_MS);
    await store.claimOperation(lease("b"));
    const before = await store.getOperation(id);
    assert.equal(await store.saveOperation({ id, ...lease("a"), summary: ODD }), "lost");
    assert.equal(await store.endOperation(endOf(id, "a", { summary: ODD })), false);
    assert.deepEqual(await store.getOperation(id), before);
  });

  test("an ended operation stays as it is", async ({ store, clock }) => {
    const { id, ...more } = newOperation();
    await store.putOperation({ id, ...more }, lease("a"));
    await clock.advance(5);
    const end = endOf(id, "a", { state: "failed", summary: ODD });
    assert.equal(await store.endOperation(end), true);
    const ended = await store.getOperation(id);
    assert.deepEqual(
      [ended?.state, ended?.summary, ended?.endedAt, ended?.leaseUntil, ended?.abandoned],
      ["failed", ODD, clock.now(), null, false],
    );
    await clock.advance(2 * LEASE_MS);
    assert.equal(await store.claimOperation(lease("b")), null);
    assert.equal(await store.saveOperation({ id, ...lease("a"), summary: "{}" }), "lost");
    assert.equal(await store.stopOperation(id), false);
    assert.equal(await store.endOperation({ ...end, state: "done" }), false);
    assert.equal(await store.endOperation(end), true, "a repeated call succeeds");
    assert.deepEqual(await store.getOperation(id), ended);
  });

  test("the owner learns that a stop was requested", async ({ store, clock }) => {
    const { id, ...more } = newOperation();
    await store.putOperation({ id, ...more }, lease("a"));
    assert.equal(await store.stopOperation(id), true);
    assert.equal(await store.stopOperation(id), true);
    assert.equal((await store.getOperation(id))?.stopRequested, true);
    assert.equal(await store.saveOperation({ id, ...lease("a"), summary: ODD }), "stop");
    await clock.advance(LEASE_MS);
    assert.equal((await store.claimOperation(lease("b")))?.stopRequested, true);
    assert.equal(await store.endOperation(endOf(id, "b", { state: "stopped" })), true);
    assert.equal((await store.getOperation(id))?.state, "stopped");
  });
}

function raceCases(test: DefineCase): void {
  test.live([], "one of several concurrent claims wins", async (scene) => {
    const handles = await handlesOf(scene, 4);
    for (let round = 0; round < 5; round++) {
      const operation = newOperation();
      await scene.store.putOperation(operation, { owner: "a", leaseMs: 0 });
      const claims = await Promise.all(
        [...handles, ...handles].map((handle: Store, nth) => handle.claimOperation(lease(`owner ${nth}`))),
      );
      const won = claims.filter((claimed) => claimed !== null);
      assert.deepEqual(
        won.map(({ id }) => id),
        [operation.id],
        `round ${round}`,
      );
      assert.equal((await scene.store.getOperation(operation.id))?.owner, won[0]?.owner);
    }
  });
}
