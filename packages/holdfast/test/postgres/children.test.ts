import { describe, expect, it } from "vitest";
import { addAll, claimOne, finish, insertOne, key, newJob } from "#src/testing/exercise-store/builders.js";
import { openScene, type Scene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const PARENT = "018f4d2e-7b3a-7c11-8a55-00000000000a";
const OTHER = "018f4d2e-7b3a-7c11-8a55-00000000000b";

/** The entries of children in the table of tags. */
async function entries({ sql }: Scene): Promise<unknown[]> {
  return (await sql<{ tag: string }>("SELECT tag FROM $s.tags ORDER BY tag, seq")).map(({ tag }) => tag);
}
const entryOf = (parent: string): string => `\u001Fparent ${parent}`;

describe("the entries that list the children of a job", () => {
  it("are deleted with the children, however those are deleted", async () => {
    const scene = await openScene(server);
    const { store } = scene;
    const own = { parent: PARENT, tags: ["t"] };
    const [removed] = await addAll(store, [newJob({ ...own, delayMs: 60_000 })]);
    expect(await entries(scene)).toEqual([entryOf(PARENT), "t"]);
    await store.remove([removed ?? ""]);
    const jobs = [newJob({ parent: PARENT }), newJob(own), newJob({ ...own, settings: { keepMs: { completed: 0 } } })];
    await addAll(store, jobs);
    await finish(store, await claimOne(store), "completed", { keep: false });
    await finish(store, await claimOne(store), "completed");
    await finish(store, await claimOne(store), "completed");
    expect(await store.purge({ state: "completed", before: Date.now() + 60_000, keep: null, limit: 10 })).toBe(1);
    expect(await entries(scene)).toEqual([entryOf(PARENT), "t"]);
    await expect.poll(() => store.purgeDue(10)).toBe(1);
    expect(await entries(scene)).toEqual([]);
  });

  it("follow a job that is replaced, and not its tags", async () => {
    const scene = await openScene(server);
    const { store } = scene;
    const unique = key("k", { onConflict: "replace" });
    const job = newJob({ unique, parent: PARENT, tags: ["a"], delayMs: 60_000 });
    await insertOne(store, job);
    await insertOne(store, newJob({ unique, parent: OTHER, delayMs: 60_000 }));
    expect(await entries(scene)).toEqual([entryOf(OTHER)]);
    await store.update([{ id: job.id, tags: ["b"] }]);
    await store.update([{ id: job.id, tags: [] }]);
    expect(await entries(scene)).toEqual([entryOf(OTHER)]);
    await insertOne(store, newJob({ unique, delayMs: 60_000 }));
    expect(await entries(scene)).toEqual([]);
  });

  it("are ignored and deleted if an older process has deleted the child", async () => {
    const scene = await openScene(server);
    const { store, sql } = scene;
    const ids = await addAll(
      store,
      [1, 2, 3, 4].map(() => newJob({ parent: PARENT, tags: ["t"] })),
    );
    await finish(store, await claimOne(store));
    await sql("DELETE FROM $s.archive");
    await sql("DELETE FROM $s.live WHERE id = $1", [ids[2]]);
    for (const order of ["newest", "oldest"] as const) {
      const { jobs, cursor } = await store.list({ parent: PARENT }, { limit: 2, cursor: null, order });
      const left = [ids[1], ids[3]];
      expect(jobs.map((job) => job.id)).toEqual(order === "oldest" ? left : left.toReversed());
      expect(await store.skip?.({ parent: PARENT }, { limit: 9, cursor: null, order })).toMatchObject({ passed: 2 });
      expect(cursor === null || (await store.list({ parent: PARENT }, { limit: 2, cursor, order })).jobs).toEqual(
        cursor === null ? true : [],
      );
    }
    await store.maintain();
    expect(await entries(scene)).toEqual([entryOf(PARENT), entryOf(PARENT), "t", "t"]);
  });

  it("are found by an id in any case, and not by an invalid one", async () => {
    const { store } = await openScene(server);
    await addAll(store, [newJob({ parent: PARENT, user: "ada" })]);
    const found = async (parent: string, user?: string): Promise<number> =>
      (await store.list({ parent, user }, { limit: 5, cursor: null })).jobs.length;
    expect(await found(PARENT.toUpperCase())).toBe(1);
    expect(await found(PARENT.toUpperCase(), "ada")).toBe(1);
    expect(await found("nobody")).toBe(0);
    expect(await found("nobody", "ada")).toBe(0);
  });
});
