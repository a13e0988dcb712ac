import assert from "node:assert/strict";
import type { JobFilter, JobPage, NewJob, PageRequest, Store, StoredJob } from "../../store.js";
import { add, addAll, claim, claimOne, finish, MINUTE, newJob, newJobs } from "./builders.js";
import type { DefineCase } from "./scene.js";

const ORDERS: readonly Pick<PageRequest, "order" | "anyOrder">[] = [
  { order: "newest" },
  { order: "oldest" },
  { order: "newest", anyOrder: true },
];

export function pagingCases(test: DefineCase): void {
  test("paging returns every job once, newest first", async ({ store, clock }) => {
    const created: string[] = [];
    // Several per millisecond: the cursor must distinguish them.
    for (let count = 0; count < 5; count++) {
      created.push(...(await addAll(store, newJobs(5, { tags: [count % 2 === 0 ? "even" : "odd"] }))));
      await clock.advance(1);
    }
    for (const job of await claim(store, { limit: 9 })) await finish(store, job);
    for (const limit of [1, 3, 5, 25, 100]) {
      const pages = await pagesOf(store, {}, { limit });
      assert.ok(
        pages.every((page) => page.length <= limit),
        `at most ${limit} a page`,
      );
      const all = pages.flat();
      assert.deepEqual(ids(all).toSorted(), created.toSorted(), `by ${limit}`);
      assert.ok(
        all.every((job, index) => index === 0 || job.createdAt <= (all[index - 1]?.createdAt ?? 0)),
        "newest first",
      );
    }
    assert.equal(
      (await pagesOf(store, { tag: "odd", states: ["pending", "completed"] }, { limit: 3 })).flat().length,
      10,
    );
  });

  test("a list continues after any job of a page", async ({ store, clock }) => {
    const created: string[] = [];
    for (let count = 0; count < 9; count++) {
      created.unshift(await add(store, { type: count % 3 === 0 ? "a" : "b" }));
      if (count % 2 === 0) await clock.advance(1);
    }
    for (const job of await claim(store, { limit: 4 })) await finish(store, job, "dead");
    for (const filter of [{}, { types: ["b"] }, { states: ["pending" as const] }, { ids: created }]) {
      for (const request of ORDERS) {
        const all = (await pagesOf(store, filter, request)).flat();
        const page: JobPage = await store.list(filter, { limit: 5, cursor: null, ...request });
        assert.equal(page.cursors.length, page.jobs.length);
        for (const [at, cursor] of page.cursors.entries()) {
          const rest = (await pagesOf(store, filter, { ...request, from: cursor })).flat();
          assert.deepEqual(ids(rest), ids(all).slice(at + 1), JSON.stringify([filter, request]));
        }
      }
    }
  });

  test("a page ends before its payloads exceed a number of bytes", async ({ store, clock }) => {
    const input = (length: number): string => JSON.stringify("ü".repeat((length - 2) / 2));
    const created: NewJob[] = [];
    for (const length of [600, 2_000, 40, 60, 100, 900, 20, 1_000]) {
      const job = newJob({ input: input(length), ...(created.length === 0 && { queue: "first" }) });
      await addAll(store, [job]);
      created.push(job);
      await clock.advance(1);
    }
    for (const filter of [{}, { types: [created[0]?.type ?? ""] }, { ids: ids(created) }]) {
      for (const request of ORDERS) {
        const pages = await pagesOf(store, filter, { ...request, bytes: 1_000 });
        const what = JSON.stringify([filter, request]);
        const sizes = pages.map((page) => page.map((job) => Buffer.byteLength(job.input)));
        const sum = (page: readonly number[]): number => page.reduce((total, bytes) => total + bytes, 0);
        assert.ok(
          sizes.every((page) => page.length <= 1 || sum(page) <= 1_000),
          `${what}: ${JSON.stringify(sizes)}`,
        );
        assert.deepEqual(ids(pages.flat()).toSorted(), ids(created).toSorted(), what);
      }
    }
    const oldest = await pagesOf(store, {}, { order: "oldest", bytes: 1_000 });
    assert.deepEqual(
      oldest.map(({ length }) => length),
      [1, 1, 3, 2, 1],
    );
    const bare = await store.list({}, { limit: 10, cursor: null, payloads: false, bytes: 1_000 });
    assert.equal(bare.jobs.length, created.length, "without payloads there is no limit");
    await finish(store, await claimOne(store, { queues: ["first"] }), "completed", {
      output: JSON.stringify("x".repeat(5_000)),
    });
    const around = await pagesOf(store, {}, { order: "oldest", bytes: 7_100 });
    assert.deepEqual(
      around.map(({ length }) => length),
      [1, 7],
      "outputs and inputs of finished jobs count too",
    );
  });

  test("a list in any order returns every job once", async ({ store, clock }) => {
    const start = clock.now();
    const created: NewJob[] = [];
    for (let nth = 0; nth < 40; nth++) {
      const place = { type: `t${nth % 5}`, queue: `q${nth % 3}`, priority: nth % 2, user: nth % 4 === 0 ? "u" : null };
      const job = newJob({
        ...place,
        delayMs: nth % 7 === 0 ? MINUTE : 0,
        tags: nth % 8 === 0 ? ["rare"] : ["x", "y"],
      });
      created.push(job);
      await addAll(store, [job]);
      if (nth % 2 === 0) await clock.advance(1);
    }
    for (const [nth, job] of (await claim(store, { limit: 12 })).entries()) {
      if (nth > 1) await finish(store, job, (["completed", "dead", "failed"] as const)[nth % 3]);
    }
    await store.cancel(ids(created.slice(30, 33)));
    await store.remove(ids(created.slice(36)));
    const filters: JobFilter[] = [
      {},
      { types: ["t1", "t2", "t4"] },
      { types: ["none"] },
      { states: ["pending", "failed", "claimed"] },
      { states: ["pending"], queues: ["q1"], priority: 1, types: ["t1", "t4"] },
      { states: ["dead", "cancelled"] },
      { states: ["dead", "pending"] },
      { tag: "rare" },
      { user: "u" },
      { ids: ids(created) },
      { ids: ids(created), states: ["cancelled"] },
      { createdAfter: start + 4, createdBefore: start + 15 },
      { createdAfter: start + 4, createdBefore: start + 15, states: ["pending"] },
      { createdAfter: start + 15, createdBefore: start + 4 },
    ];
    for (const filter of filters) {
      const expected = ids(await list(store, filter)).toSorted();
      for (const order of ["newest", "oldest"] as const) {
        for (const limit of [1, 4, 100, 1_000]) {
          const pages = await pagesOf(store, filter, { limit, order, anyOrder: true });
          const what = JSON.stringify({ filter, order, limit });
          assert.ok(
            pages.every((page) => page.length <= limit),
            what,
          );
          assert.deepEqual(ids(pages.flat()).toSorted(), expected, what);
        }
      }
    }
  });

  test("a list in any order finds jobs that change state meanwhile", async ({ store, clock }) => {
    const created: string[] = [];
    for (let nth = 0; nth < 30; nth++) {
      created.push(await add(store, { type: `t${nth % 5}` }));
      await clock.advance(1);
    }
    const found = new Set<string>();
    let cursor: string | null = null;
    do {
      const page: JobPage = await store.list({}, { limit: 2, cursor, anyOrder: true });
      for (const { id } of page.jobs) found.add(id);
      cursor = page.cursor;
      for (const job of await claim(store, { limit: 1 })) await finish(store, job, "dead");
    } while (cursor !== null);
    assert.deepEqual([...found].toSorted(), created.toSorted());
  });

  test("new and changed jobs do not shift later pages", async ({ store, clock }) => {
    const created: string[] = [];
    for (let count = 0; count < 6; count++) {
      created.unshift(await add(store));
      await clock.advance(1);
    }
    const first = await store.list({}, { limit: 3, cursor: null });
    await add(store);
    await finish(store, await claimOne(store));
    const rest = first.cursor === null ? [] : (await pagesOf(store, {}, { limit: 10, from: first.cursor })).flat();
    assert.deepEqual(ids([...first.jobs, ...rest]), created);
  });
}

export async function list(store: Store, filter: JobFilter): Promise<StoredJob[]> {
  return (await pagesOf(store, filter)).flat();
}

/** Ends at a null cursor, because a page may be short although more follow. */
export async function pagesOf(
  store: Store,
  filter: JobFilter,
  { limit = 1_000, from = null, ...request }: Partial<PageRequest> & { from?: string | null } = {},
): Promise<StoredJob[][]> {
  const pages: StoredJob[][] = [];
  let cursor = from;
  do {
    const page: JobPage = await store.list(filter, { ...request, limit, cursor });
    for (const each of [page.cursor, ...page.cursors])
      if (each !== null) assert.match(each, /^[\w-]{1,200}$/, "the cursor fits in a URL");
    pages.push(page.jobs);
    cursor = page.cursor;
    assert.ok(pages.length < 1_000, "paging must end");
  } while (cursor !== null);
  return pages;
}

export function ids(jobs: readonly { id: string }[]): string[] {
  return jobs.map((job) => job.id);
}
