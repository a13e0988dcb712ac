import assert from "node:assert/strict";
import { LIMITS } from "../../defaults.js";
import type { HistoryPage, HistoryRange, HistoryRecord, HistoryResolution, Store } from "../../store.js";
import { MINUTE, newHistoryRecord } from "./builders.js";
import { handlesOf, type DefineCase } from "./scene.js";

const T0 = 1_700_000_040_000;
const MERGED = "merged";

export function historyRecordCases(test: DefineCase): void {
  recordCases(test);
  mergeCases(test);
  purgeCases(test);
}

function recordCases(test: DefineCase): void {
  test("without records history is empty", async ({ store }) => {
    await store.putHistory([]);
    assert.deepEqual(await all(store), []);
    assert.deepEqual(await all(store, { resolution: "hour" }), []);
  });

  test("stores records by resolution, time and writer", async ({ store }) => {
    const data = `{"odd":"naïve 漢字 \u{1f9d1} it's \\\\ \\" $1"}`;
    const records = [
      newHistoryRecord({ data }),
      newHistoryRecord({ writer: "w2" }),
      newHistoryRecord({ at: T0 + MINUTE }),
    ];
    const hour = newHistoryRecord({ resolution: "hour", data: "{}" });
    await store.putHistory([...records.toReversed(), hour]);
    assert.deepEqual(await all(store), records);
    assert.deepEqual(await all(store, { resolution: "hour" }), [hour]);
  });

  test("a record of the same writer is replaced", async ({ store }) => {
    await store.putHistory([newHistoryRecord({ data: "1" }), newHistoryRecord({ writer: "w2", data: "2" })]);
    await store.putHistory([newHistoryRecord({ data: "3" })]);
    assert.deepEqual(await dataOf(store), ["w1 3", "w2 2"]);
  });

  test("returns records from inclusive to exclusive", async ({ store }) => {
    const times = [0, 1, 2, 3].map((nth) => T0 + nth * MINUTE);
    await store.putHistory(times.map((at) => newHistoryRecord({ at })));
    const found = async (from: number, to: number): Promise<number[]> =>
      (await all(store, { from, to })).map(({ at }) => at);
    assert.deepEqual(await found(T0 + MINUTE, T0 + 3 * MINUTE), times.slice(1, 3));
    assert.deepEqual(await found(T0 + 1, T0 + 3 * MINUTE + 1), times.slice(1));
    assert.deepEqual(await found(T0, T0), []);
    assert.deepEqual(await found(T0 + MINUTE, T0), []);
    assert.deepEqual(await found(0, T0), []);
  });

  test("pages by time, then the writer's code points", async ({ store }) => {
    // In the order of their code points.
    const writers = ["-", "0", "10", "9", "A", "Ab", "B", "_", "a", "a-b", "aB", "b", "x".repeat(100)];
    const records = [0, 1].flatMap((nth) =>
      writers.map((writer) => newHistoryRecord({ at: T0 + nth * MINUTE, writer })),
    );
    await store.putHistory(records.toSorted((a, b) => a.writer.length - b.writer.length));
    for (const limit of [1, 2, 5, records.length - 1, records.length, 1_000]) {
      assert.deepEqual(await all(store, {}, limit), records, `by ${limit}`);
    }
    // The last record of a page may be gone.
    const after = { at: T0, writer: "AZ" };
    const rest = await store.history({ resolution: "minute", from: 0, to: 2 * T0, limit: 2, after });
    assert.deepEqual(
      rest.records.map(({ writer }) => writer),
      ["Ab", "B"],
    );
  });

  test("pages have records of the maximum size", async ({ store }) => {
    const data = JSON.stringify("x".repeat(LIMITS.historyBytes - 2));
    const records = Array.from({ length: 8 }, (_, nth) => newHistoryRecord({ writer: `w${nth}`, data }));
    await store.putHistory(records);
    const found = await all(store, {}, 8);
    assert.deepEqual(
      found.map(({ writer }) => writer),
      records.map(({ writer }) => writer),
    );
    assert.ok(found.every((record) => record.data === data));
  });
}

function mergeCases(test: DefineCase): void {
  test("a merge replaces records by one", async ({ store }) => {
    const others = [
      newHistoryRecord({ at: T0 - MINUTE }),
      newHistoryRecord({ at: T0 + MINUTE, writer: "w2" }),
      newHistoryRecord({ resolution: "hour" }),
    ];
    await store.putHistory([...someRecords(20), newHistoryRecord({ writer: "z", data: '"late"' }), ...others]);
    assert.equal(await store.mergeHistory({ record: merged("sum"), replaced: someRecords(20) }), true);
    assert.deepEqual(await dataOf(store), ["merged sum", "z late"]);
    assert.equal((await all(store)).length, 4);
    assert.equal((await all(store, { resolution: "hour" })).length, 1);
  });

  test("a merge may keep the writer of a replaced record", async ({ store }) => {
    await store.putHistory(someRecords(2));
    await store.mergeHistory({ record: merged("first"), replaced: someRecords(2) });
    await store.putHistory(someRecords(1));
    const replaced = [...someRecords(1), { writer: MERGED, data: '"first"' }];
    assert.equal(await store.mergeHistory({ record: merged("second"), replaced }), true);
    assert.deepEqual(await dataOf(store), ["merged second"]);
  });

  test("a merge of one record renames it", async ({ store }) => {
    await store.putHistory(someRecords(1));
    assert.equal(await store.mergeHistory({ record: merged("one"), replaced: someRecords(1) }), true);
    assert.deepEqual(await dataOf(store), ["merged one"]);
  });

  test("a merge changes nothing if a record changed", async ({ store }) => {
    await store.putHistory(someRecords(3));
    await store.putHistory([newHistoryRecord({ writer: "w1", data: '"more"' })]);
    const before = await dataOf(store);
    assert.equal(await store.mergeHistory({ record: merged("sum"), replaced: someRecords(3) }), false);
    assert.deepEqual(await dataOf(store), before);
  });

  test("a merge changes nothing if a record is gone", async ({ store }) => {
    await store.putHistory(someRecords(2));
    assert.equal(await store.mergeHistory({ record: merged("sum"), replaced: someRecords(3) }), false);
    assert.deepEqual(await dataOf(store), ["w0 0", "w1 1"]);
    assert.equal(await store.mergeHistory({ record: merged("sum"), replaced: someRecords(2) }), true);
    assert.equal(await store.mergeHistory({ record: merged("again"), replaced: someRecords(2) }), false);
    assert.deepEqual(await dataOf(store), ["merged sum"]);
  });

  test.live([], "one of several concurrent merges wins", async (scene) => {
    const handles = await handlesOf(scene, 4);
    for (let round = 0; round < 5; round++) {
      const at = T0 + round * MINUTE;
      const records = someRecords(5, at);
      await scene.store.putHistory(records);
      const results = await Promise.all(
        [...handles, ...handles].map((handle, nth) =>
          handle.mergeHistory({ record: merged(`by ${nth}`, at), replaced: records }),
        ),
      );
      const winners = results.flatMap((won, nth) => (won ? [nth] : []));
      assert.equal(winners.length, 1, `round ${round}: ${results.join()}`);
      assert.deepEqual(await dataOf(scene.store, at), [`merged by ${winners[0]}`]);
    }
  });

  test.live([], "a record written during a merge is not lost", async (scene) => {
    const [one, other] = (await handlesOf(scene, 2)) as [Store, Store];
    for (let round = 0; round < 10; round++) {
      const at = T0 + round * MINUTE;
      const records = someRecords(3, at);
      await one.putHistory(records);
      const [won] = await Promise.all([
        one.mergeHistory({ record: merged("sum", at), replaced: records }),
        other.putHistory([newHistoryRecord({ at, writer: "w1", data: '"more"' })]),
      ]);
      const expected = won ? ["merged sum", "w1 more"] : ["w0 0", "w1 more", "w2 2"];
      assert.deepEqual((await dataOf(one, at)).toSorted(), expected);
    }
  });
}

function purgeCases(test: DefineCase): void {
  test("purge deletes records of a resolution before a time", async ({ store }) => {
    const times = [0, 1, 2].map((nth) => T0 + nth * MINUTE);
    await store.putHistory(times.flatMap((at) => [newHistoryRecord({ at }), newHistoryRecord({ at, writer: "w2" })]));
    await store.putHistory([newHistoryRecord({ resolution: "hour" })]);
    assert.equal(await purge(store, T0), 0);
    assert.equal(await purge(store, T0 + MINUTE), 2);
    assert.deepEqual(
      (await all(store)).map(({ at }) => at),
      [1, 1, 2, 2].map((nth) => T0 + nth * MINUTE),
    );
    assert.equal(await purge(store, T0 + 10 * MINUTE), 4);
    assert.deepEqual(await all(store), []);
    assert.equal((await all(store, { resolution: "hour" })).length, 1);
    assert.equal(await purge(store, T0 + 1, 10, "hour"), 1);
  });

  test("purge deletes at most its limit", async ({ store }) => {
    await store.putHistory(someRecords(5));
    const counts = [await purge(store, T0 + 1, 2), await purge(store, T0 + 1, 2), await purge(store, T0 + 1, 2)];
    assert.deepEqual([...counts, await purge(store, T0 + 1, 2)], [2, 2, 1, 0]);
    assert.deepEqual(await all(store), []);
  });
}

/** Records of the writers w0, w1, … */
function someRecords(count: number, at = T0): HistoryRecord[] {
  return Array.from({ length: count }, (_, nth) => newHistoryRecord({ at, writer: `w${nth}`, data: String(nth) }));
}

function merged(data: string, at = T0): HistoryRecord {
  return newHistoryRecord({ at, writer: MERGED, data: JSON.stringify(data) });
}

function purge(store: Store, before: number, limit = 100, resolution: HistoryResolution = "minute"): Promise<number> {
  return store.purgeHistory({ resolution, before, limit });
}

/** Every record of a range, page by page. */
async function all(store: Store, range: Partial<HistoryRange> = {}, limit = 100): Promise<HistoryRecord[]> {
  const found: HistoryRecord[] = [];
  let after: HistoryRange["after"] = null;
  for (;;) {
    const page: HistoryPage = await store.history({
      resolution: "minute",
      from: 0,
      to: 2 * T0,
      ...range,
      limit,
      after,
    });
    assert.ok(page.records.length <= limit, "a page has no more than its limit");
    found.push(...page.records);
    if (page.next === null) return found;
    assert.ok(page.records.length > 0, "a page that is not the last has records");
    after = page.next;
  }
}

/** The writer and data of each record of a minute. */
async function dataOf(store: Store, at = T0): Promise<string[]> {
  return (await all(store, { from: at, to: at + 1 })).map(({ writer, data }) => `${writer} ${JSON.parse(data)}`);
}
