import { tmpdir } from "node:os";
import { holdfast, type Holdfast } from "holdfast";
import { describe, expect, it, onTestFinished } from "vitest";
import { adminScene, adminStores, mail, never } from "./scene.js";

const STORES = adminStores();

async function open(store: string): Promise<Holdfast> {
  const hf = await holdfast({ store, jobs: [mail, never], logger: false });
  onTestFinished(() => hf.close());
  return hf;
}

async function enqueue(hf: Holdfast, user: string, count: number): Promise<void> {
  await hf.enqueueMany(never, Array<object>(count).fill({}), { user });
}

describe.each(STORES)("cursors on %s", (_name, store) => {
  it("reveal nothing about other users' jobs", async () => {
    const { hf, as } = await adminScene(store());
    const ada = await as("user", "ada");
    const seen: string[] = [];
    for (const others of [0, 20, 400]) {
      await enqueue(hf, "bob", others);
      await enqueue(hf, "ada", 3);
      for (const { cursor } of [await ada.jobs.list({ limit: 1 }), await hf.forUser("ada").list({ limit: 1 })]) {
        seen.push(cursor ?? "");
      }
      seen.push((await ada.jobs.list({ limit: 1, offset: 1 })).cursor ?? "");
    }
    // As long as each other, and never the same: nothing can be compared.
    expect(new Set(seen.map(({ length }) => length)).size).toBe(1);
    expect(new Set(seen).size).toBe(seen.length);
    for (const cursor of seen) expect(cursor).toMatch(/^[\w-]{60,400}$/);
  });

  it("work across pages and clients", async () => {
    const address = store().replace(":memory:", `${tmpdir()}/holdfast-cursors-${process.pid}-${Date.now()}.db`);
    const [one, other] = [await open(address), await open(address)];
    await enqueue(one, "bob", 3);
    await enqueue(one, "ada", 5);
    const users: (string | null)[] = [];
    let cursor: string | null = null;
    for (let page = 0; page === 0 || cursor !== null; page++) {
      // Each page from a client that was opened before, or is opened now, as after a restart.
      const hf: Holdfast = [one, other, await open(address)][page % 3] as Holdfast;
      const found: Awaited<ReturnType<Holdfast["list"]>> = await hf.list({ limit: 2, cursor });
      users.push(...found.jobs.map(({ user }) => user));
      ({ cursor } = found);
    }
    expect(users).toEqual([...("adaadaadaadaada".match(/ada/g) ?? []), "bob", "bob", "bob"]);
  });

  it("are rejected if they were changed", async () => {
    const { hf, as, send, token } = await adminScene(store());
    await enqueue(hf, "ada", 3);
    const ada = await as("user", "ada");
    const cursor = (await ada.jobs.list({ limit: 1 })).cursor ?? "";
    expect((await ada.jobs.list({ limit: 1, cursor })).jobs).toHaveLength(1);
    const elsewhere = await open("sqlite::memory:");
    await enqueue(elsewhere, "ada", 3);
    const foreign = (await elsewhere.list({ limit: 1 })).cursor ?? "";
    const flipped = `${cursor.startsWith("A") ? "B" : "A"}${cursor.slice(1)}`;
    for (const bad of [
      "1",
      "2",
      "9007199254740991",
      flipped,
      cursor.slice(0, -4),
      `${cursor}AAAA`,
      foreign,
      "A".repeat(80),
      " ",
    ]) {
      await expect(hf.list({ cursor: bad })).rejects.toMatchObject({ code: "INVALID_OPTION", field: "cursor" });
      await expect(hf.forUser("ada").list({ cursor: bad })).rejects.toMatchObject({ field: "cursor" });
      const response = await send(`/api/admin/jobs?cursor=${encodeURIComponent(bad)}`, {
        token: await token("viewer"),
      });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({ error: { message: expect.stringContaining("cursor") as string } });
    }
  });

  it("read their key only once", async () => {
    const { hf } = await adminScene(store());
    await enqueue(hf, "ada", 5);
    const { store: asked } = (await import("#src/engine/client/holdfast.js")).engineOf(hf);
    const before = asked.cursorKey.bind(asked);
    let [looks, fails] = [0, true];
    asked.cursorKey = async () => {
      looks++;
      if (fails) throw new Error("the store does not respond");
      return before();
    };
    await hf.list();
    expect(looks).toBe(0);
    await expect(hf.list({ limit: 1 })).rejects.toThrow("the store does not respond");
    fails = false;
    for (let page = await hf.list({ limit: 1 }); page.cursor !== null;) {
      page = await hf.list({ limit: 1, cursor: page.cursor });
    }
    expect(looks).toBe(2);
  });
});
