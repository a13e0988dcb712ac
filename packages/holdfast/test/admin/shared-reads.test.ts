import { describe, expect, it } from "vitest";
import { engineOf } from "#src/engine/client/holdfast.js";
import { maxAgeOf, SharedReads } from "#src/admin/calls/shared-reads.js";
import { adminScene, adminStores, mail } from "./scene.js";

const STORES = adminStores();

describe.each(STORES)("reads of open pages on %s", (_name, store) => {
  /** The API, and how often its store was asked for its workers and queues. */
  async function scene() {
    const { hf, send, token } = await adminScene(store());
    const calls = { workers: 0, queues: 0, stats: 0 };
    const { store: asked } = engineOf(hf);
    for (const name of ["workers", "queues", "stats"] as const) {
      const call = asked[name].bind(asked) as () => Promise<never>;
      Object.assign(asked, { [name]: () => (calls[name]++, call()) });
    }
    const admin = await token("admin");
    const read = async (path: string, maxAge?: number): Promise<Record<string, unknown>> => {
      const headers = maxAge === undefined ? {} : { "cache-control": `max-age=${maxAge}` };
      const response = await send(`/api/admin/${path}`, { token: admin, headers });
      expect(response.status).toBe(200);
      return (await response.json()) as Record<string, unknown>;
    };
    return { hf, send, token, admin, calls, read };
  }

  it("are shared by callers that accept their age", async () => {
    const { calls, read } = await scene();
    await Promise.all(Array.from({ length: 200 }, () => read("workers", 60)));
    expect(calls.workers).toBe(1);
    await read("workers");
    expect(calls.workers).toBe(2);
  });

  it("take the names of queues from the last counts", async () => {
    const { hf, calls, read } = await scene();
    await hf.enqueue(mail, { to: "ada" });
    await hf.drain();
    await read("jobs/stats", 5);
    const before = { ...calls };
    expect(await read("queues", 5)).toMatchObject({ queues: [{ queue: "default" }], paused: false });
    expect(calls).toMatchObject({ stats: before.stats, queues: before.queues + 1 });
  });

  it("show a change through the server at once", async () => {
    const { read, send, admin } = await scene();
    expect(await read("queues", 60)).toMatchObject({ paused: false });
    await send("/api/admin/pause", { method: "POST", token: admin });
    expect(await read("queues", 60)).toMatchObject({ paused: true });
  });

  it("need the role of their route", async () => {
    const { read, send, token } = await scene();
    await read("audit", 60);
    const headers = { "cache-control": "max-age=60" };
    const viewer = await token("viewer");
    expect((await send("/api/admin/audit", { token: viewer, headers })).status).toBe(403);
    expect((await send("/api/admin/workers", { headers })).status).toBe(401);
  });
});

describe("shared reads", () => {
  it("are not shared after an error", async () => {
    const shared = new SharedReads();
    let reads = 0;
    const read = () => Promise.reject(new Error(`read ${++reads}`));
    for (const nth of [1, 2])
      await expect(shared.read("workers.list", {}, 60_000, read)).rejects.toThrow(`read ${nth}`);
  });

  it("are kept for a limited number of inputs", async () => {
    const shared = new SharedReads();
    let reads = 0;
    const read = (limit: number) => shared.read("errors.list", { limit }, 60_000, async () => ++reads);
    for (let nth = 0; nth < 150; nth++) await read(nth);
    await read(149);
    expect(reads).toBe(150);
    await read(0);
    expect(reads).toBe(151);
  });

  it("are not those of jobs", async () => {
    const shared = new SharedReads();
    let reads = 0;
    for (let nth = 0; nth < 2; nth++) await shared.read("jobs.list", {}, 60_000, async () => ++reads);
    expect(reads).toBe(2);
  });

  it.each([
    [null, 0],
    ["max-age=5", 5_000],
    ["no-transform, max-age=5", 5_000],
    ["max-age=0", 0],
    ["max-age=9999", 60_000],
    ["s-max-age=5", 0],
    ["max-age=5x", 0],
    ["no-cache", 0],
  ])("accept an age by the header %j", (value, ms) => {
    const headers = new Headers(value === null ? [] : [["cache-control", value]]);
    expect(maxAgeOf(new Request("http://localhost", { headers }))).toBe(ms);
  });
});
