import assert from "node:assert/strict";
import { LIMITS } from "../../defaults.js";
import type { ErrorGroupRecord, Store } from "../../store.js";
import { FINGERPRINT, newErrorGroup, SECOND } from "./builders.js";
import { handlesOf, type DefineCase } from "./scene.js";

const ODD = `naïve Ω 漢字 \u{1f9d1}\u200d\u{1f680} it's "quoted" \\ $1 ? % _ -- #`;
const T0 = 1_700_000_000_000;

export function errorGroupCases(test: DefineCase): void {
  test("without errors there are no groups", async ({ store }) => {
    await store.recordErrors([]);
    assert.deepEqual(await store.errorGroups(10), []);
    assert.equal(await store.purgeErrorGroups(T0), 0);
  });

  test("stores every field of a group", async ({ store }) => {
    const full = newErrorGroup({
      fingerprint: nth(2),
      type: ODD,
      name: ODD,
      code: ODD,
      message: ODD.repeat(5),
      frame: ODD,
      count: 1_000_000,
      lastAt: T0 + SECOND,
      example: ODD.repeat(20),
    });
    const bare = newErrorGroup({ fingerprint: nth(1), type: null, name: null, code: null, frame: null, message: "" });
    await store.recordErrors([bare, full]);
    assert.deepEqual(await store.errorGroups(10), [full, bare]);
  });

  test("adds counts and keeps the first and last time", async ({ store }) => {
    const first = newErrorGroup({ count: 2, firstAt: T0, lastAt: T0 + 10 });
    await store.recordErrors([first]);
    const earlier = newErrorGroup({ count: 3, firstAt: T0 - 20, lastAt: T0 - 10, example: "order 1 failed" });
    await store.recordErrors([earlier]);
    assert.deepEqual(await store.errorGroups(10), [{ ...first, count: 5, firstAt: T0 - 20 }]);
    const later = newErrorGroup({ count: 4, firstAt: T0 + 20, lastAt: T0 + 30, example: "order 9 failed" });
    await store.recordErrors([later]);
    assert.deepEqual(await store.errorGroups(10), [{ ...later, count: 9, firstAt: T0 - 20 }]);
  });

  test("a call may add to a group twice", async ({ store }) => {
    const first = newErrorGroup({ count: 2 });
    const later = newErrorGroup({ count: 3, firstAt: T0 + 1, lastAt: T0 + 1, example: "later" });
    const other = newErrorGroup({ fingerprint: nth(1), lastAt: T0 - 1, firstAt: T0 - 1 });
    await store.recordErrors([first, other, later]);
    assert.deepEqual(await store.errorGroups(10), [{ ...later, count: 5, firstAt: T0 }, other]);
  });

  test("orders groups by last time, then fingerprint, descending", async ({ store }) => {
    const groups = [
      newErrorGroup({ fingerprint: nth(3), lastAt: T0 }),
      newErrorGroup({ fingerprint: nth(1), lastAt: T0 + 2 }),
      newErrorGroup({ fingerprint: "ffffffffffffffff", lastAt: T0 + 1 }),
      newErrorGroup({ fingerprint: "aaaaaaaaaaaaaaaa", lastAt: T0 + 1 }),
      newErrorGroup({ fingerprint: nth(9), lastAt: T0 + 1 }),
    ];
    for (const group of groups) await store.recordErrors([group]);
    const expected = [nth(1), "ffffffffffffffff", "aaaaaaaaaaaaaaaa", nth(9), nth(3)];
    assert.deepEqual(await fingerprints(store, 10), expected);
    assert.deepEqual(await fingerprints(store, 2), expected.slice(0, 2));
    // The group moves to the front.
    await store.recordErrors([newErrorGroup({ fingerprint: nth(3), firstAt: T0 + 3, lastAt: T0 + 3 })]);
    assert.deepEqual(await fingerprints(store, 1), [nth(3)]);
    assert.equal((await fingerprints(store, 10)).length, 5);
  });

  test("purge deletes groups that did not occur lately", async ({ store }) => {
    await store.recordErrors([
      newErrorGroup({ fingerprint: nth(1), firstAt: T0, lastAt: T0 }),
      newErrorGroup({ fingerprint: nth(2), firstAt: T0, lastAt: T0 + SECOND }),
      newErrorGroup({ fingerprint: nth(3), firstAt: T0, lastAt: T0 + 2 * SECOND }),
    ]);
    assert.equal(await store.purgeErrorGroups(T0), 0);
    assert.equal(await store.purgeErrorGroups(T0 + SECOND), 1);
    assert.deepEqual(await fingerprints(store, 10), [nth(3), nth(2)]);
    await store.recordErrors([newErrorGroup({ fingerprint: nth(1), count: 7 })]);
    const [, , again] = await store.errorGroups(10);
    assert.deepEqual([again?.fingerprint, again?.count], [nth(1), 7], "a deleted group starts again");
    assert.equal(await store.purgeErrorGroups(T0 + 10 * SECOND), 3);
    assert.deepEqual(await store.errorGroups(10), []);
  });

  test("purge keeps the newest groups up to the limit", async ({ store }) => {
    const extra = 5;
    const groups = Array.from({ length: LIMITS.errorGroups + extra }, (_, at) =>
      newErrorGroup({ fingerprint: nth(at), firstAt: T0, lastAt: T0 + at }),
    );
    for (let at = 0; at < groups.length; at += 100) await store.recordErrors(groups.slice(at, at + 100));
    const newest = groups.toReversed().map(({ fingerprint }) => fingerprint);
    assert.deepEqual(await fingerprints(store, 10 * LIMITS.errorGroups), newest.slice(0, LIMITS.errorGroups));
    assert.equal(await store.purgeErrorGroups(T0), extra);
    assert.equal(await store.purgeErrorGroups(T0), 0);
    assert.deepEqual(await fingerprints(store, LIMITS.errorGroups), newest.slice(0, LIMITS.errorGroups));
  });

  test.live([], "concurrent calls count every attempt", async (scene) => {
    const handles = await handlesOf(scene, 4);
    const calls = 15;
    await Promise.all(
      handles.flatMap((handle, caller) =>
        Array.from({ length: calls }, (_, at) => {
          const time = T0 + caller * calls + at;
          const both = [FINGERPRINT, nth(1)].map((fingerprint) =>
            newErrorGroup({ fingerprint, count: 2, firstAt: time, lastAt: time, example: `at ${time}` }),
          );
          // In both orders: a store that locks rows must not deadlock.
          return handle.recordErrors(at % 2 === 0 ? both : both.toReversed());
        }),
      ),
    );
    const all = handles.length * calls;
    const last = T0 + all - 1;
    assert.deepEqual(
      (await scene.store.errorGroups(10)).map(({ job: _job, ...group }) => group),
      [FINGERPRINT, nth(1)].map((fingerprint) => {
        const times = { count: 2 * all, firstAt: T0, lastAt: last };
        const { job: _job, ...group } = newErrorGroup({ fingerprint, ...times, example: `at ${last}` });
        return group satisfies Omit<ErrorGroupRecord, "job">;
      }),
    );
  });
}

async function fingerprints(store: Store, limit: number): Promise<string[]> {
  return (await store.errorGroups(limit)).map(({ fingerprint }) => fingerprint);
}

/** Fingerprints in ascending order. */
function nth(n: number): string {
  return n.toString(16).padStart(16, "0");
}
