import { describe, expect, it } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { checked, ended, errorOf } from "./results.js";
import { adminScene, adminStores, mail, never } from "./scene.js";

const STORES = adminStores();

const HOUR = { delay: "1h" } as const;
const MISSING = "01a1e0d0-d1c0-79bf-a2c2-8d02453060e6";

describe.each(STORES)("changes of waiting jobs on %s", (_name, store) => {
  it("set every field of one job", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("operator");
    const { id } = await hf.enqueue(mail, { to: "ada" }, { ...HOUR, tags: ["old"] });
    const changes = {
      runAt: "2030-01-01T00:00:00.000Z",
      priority: 7,
      queue: "fast",
      input: { to: "bob" },
      tags: ["a", "b"],
      maxAttempts: 9,
      expiresAt: "2031-01-01T00:00:00.000Z",
    };
    expect(checked("jobs.update", await client.jobs.update({ id, ...changes }))).toEqual({ status: "updated" });
    const { runAt: dueAt, ...others } = changes;
    expect(await client.jobs.get({ id })).toMatchObject({ ...others, dueAt, state: "pending" });
    await client.jobs.update({ id, expiresAt: null, tags: [] });
    expect(await hf.get(id)).toMatchObject({ expiresAt: null, tags: [], priority: 7 });
    expect(checked("jobs.promote", await client.jobs.promote({ id }))).toEqual({ status: "promoted" });
    expect(await hf.drain()).toBe(1);
  });

  it("change none of many ids if the type of one rejects the input", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("operator");
    const ids: string[] = [];
    for (let n = 0; n < 101; n++) ids.push((await hf.enqueue(mail, { to: "ada" }, HOUR)).id);
    ids.push((await hf.enqueue(never, {}, HOUR)).id);
    expect(await errorOf(client.jobs.updateMany({ ids, input: { to: "bob" } }))).toMatchObject({
      status: 400,
      code: "INVALID_INPUT",
    });
    expect((await client.operations.list()).operations).toEqual([]);
    const { jobs } = await hf.list({ id: ids, type: "mail", limit: 1_000 });
    expect(new Set(jobs.map((each) => JSON.stringify(each.input)))).toEqual(new Set(['{"to":"ada"}']));
  });

  it("are refused with a reason and change nothing", async () => {
    const { hf, as, send, token } = await adminScene(store());
    const client = await as("operator");
    const { id } = await hf.enqueue(mail, { to: "ada" }, HOUR);
    const before = await hf.get(id);
    for (const [changes, path] of [
      [{}, "update"],
      [{ delay: "1h", runAt: "2030-01-01T00:00:00Z" }, "delay"],
      [{ expiresAt: "2020-01-01T00:00:00Z" }, "expiresAt"],
      [{ input: { to: 5 } }, "input.to"],
      [{ priority: 101 }, "priority"],
      [{ queue: "*" }, "queue"],
    ] as const) {
      expect(await errorOf(client.jobs.update({ id, ...changes }))).toMatchObject({
        status: 400,
        issues: [{ path }],
      });
    }
    const unknown = { method: "PATCH", body: '{"user":"bob"}', headers: { "content-type": "application/json" } };
    expect((await send(`/api/admin/jobs/${id}`, { ...unknown, token: await token("operator") })).status).toBe(400);
    expect(await hf.get(id)).toEqual(before);
    await hf.cancel(id);
    for (const call of [() => client.jobs.update({ id, priority: 1 }), () => client.jobs.promote({ id })]) {
      expect(await errorOf(call())).toMatchObject({
        status: 409,
        code: "JOB_NOT_WAITING",
        message: `job ${id} is cancelled; only a pending or failed job can be updated; hf.rerun(id) enqueues a copy`,
      });
    }
    for (const call of [
      () => client.jobs.update({ id: MISSING, priority: 1 }),
      () => client.jobs.promote({ id: MISSING }),
    ]) {
      expect(await errorOf(call())).toMatchObject({ status: 404, code: "JOB_NOT_FOUND" });
    }
  });

  it("apply to many jobs by ids or filter", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("operator");
    const ids: string[] = [];
    for (let nth = 0; nth < 5; nth++) ids.push((await hf.enqueue(never, {}, { ...HOUR, tags: [`t${nth % 2}`] })).id);
    await hf.cancel(ids[4] ?? "");
    const byIds = checked("jobs.updateMany", await client.jobs.updateMany({ ids: [...ids, MISSING], priority: 5 }));
    expect(byIds).toMatchObject({ action: "update", total: 6 });
    expect(await ended(client, byIds)).toMatchObject({ state: "done", examined: 6, changed: 4 });
    const byFilter = await client.jobs.updateMany({ filter: { tag: "t1" }, queue: "odd", tags: [] });
    expect(await ended(client, byFilter)).toMatchObject({ state: "done", examined: 2, changed: 2 });
    expect((await client.jobs.list({ queue: ["odd"] })).jobs.map(({ id }) => id)).toEqual([ids[3], ids[1]]);
    const promote = checked("jobs.promoteMany", await client.jobs.promoteMany({ filter: { queue: ["default"] } }));
    expect(await ended(client, promote)).toMatchObject({ action: "promote", examined: 3, changed: 2 });
    expect(await hf.drain()).toBe(2);
    for (const wrong of [
      { ids, filter: { tag: "t1" }, priority: 1 },
      { filter: {}, priority: 1 },
      { ids },
      { ids, priority: 1, expiresAt: "2020-01-01T00:00:00Z" },
      { filter: { input: { path: "a..b", text: "x" } }, priority: 1 },
    ]) {
      expect(await errorOf(client.jobs.updateMany(wrong))).toMatchObject({ status: 400 });
    }
    expect((await client.operations.list()).operations).toHaveLength(3);
  });

  it("are in the audit log with a redacted input", async () => {
    const { hf, as } = await adminScene(store(), {}, { redact: ["input.secret"] });
    const [operator, admin] = [await as("operator"), await as("admin")];
    const { id } = await hf.enqueue(mail, { to: "ada", secret: "hush" }, HOUR);
    await operator.jobs.update({ id, priority: 3, input: { to: "bob", secret: "new" } });
    await operator.jobs.promote({ id });
    await ended(
      operator,
      await operator.jobs.updateMany({ ids: [id], priority: 4, input: { to: "c", secret: "newer" } }),
    );
    await ended(operator, await operator.jobs.promoteMany({ filter: { type: ["mail"] } }));
    await operator.queues.pauseAll();
    await operator.queues.resumeAll();
    await operator.keys.free({ key: "k", user: "ada" });
    await until("all audit entries", async () => (await admin.audit.list()).entries.length === 9);
    const { entries } = await admin.audit.list();
    expect(entries.map(({ action, target, count }) => [action, target, count]).toReversed()).toEqual([
      ["jobs.update", id, 1],
      ["jobs.promote", id, 1],
      ["jobs.updateMany", JSON.stringify([id]), 0],
      ["operation.update", JSON.stringify({ ids: [id] }), 1],
      ["jobs.promoteMany", '{"type":["mail"]}', 0],
      ["operation.promote", '{"filter":{"type":["mail"]}}', 1],
      ["queues.pauseAll", null, 1],
      ["queues.resumeAll", null, 1],
      ["keys.free", "k", 0],
    ]);
    expect(entries.at(-1)?.detail).toMatchObject({ priority: 3, input: { to: "bob", secret: "[redacted]" } });
    expect(JSON.stringify(entries)).not.toMatch(/hush|new/);
  });
});

describe.each(STORES)("other calls on %s", (_name, store) => {
  it("set the timeout of a job", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("operator");
    const timeouts: (number | null)[] = [];
    for (const timeout of ["10m", 5_000, false] as const) {
      const { id } = await client.jobs.enqueue({ type: "never", timeout });
      timeouts.push((await client.jobs.get({ id })).timeoutMs);
    }
    expect(timeouts).toEqual([600_000, 5_000, 0]);
    for (const timeout of [0, "soon", true] as const) {
      const call = client.jobs.enqueue({ type: "never", timeout: timeout as string });
      expect(await errorOf(call)).toMatchObject({ status: 400, issues: [{ path: "timeout" }] });
    }
    expect((await hf.list()).jobs).toHaveLength(3);
  });

  it("free the key of a deleted job", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("operator");
    const unique = { key: "a/b?c", scope: "forever" } as const;
    for (const user of [undefined, "ada"]) {
      const owner = user === undefined ? {} : { user };
      await hf.enqueue(never, {}, { unique, ...owner });
      const free = async (): Promise<string> =>
        checked("keys.free", await client.keys.free({ key: unique.key, ...owner })).status;
      expect(await free()).toBe("held");
      await hf.drain();
      await until("the job to be deleted", async () => {
        await hf.purge({ state: "completed", olderThan: 0 });
        return (await hf.list()).jobs.length === 0;
      });
      expect((await hf.enqueue(never, {}, { unique, ...owner })).duplicate).toBe(true);
      expect([await free(), await free()]).toEqual(["freed", "missing"]);
      expect((await hf.enqueue(never, {}, { unique, ...owner })).duplicate).toBe(false);
    }
  });

  it("pause and resume all queues", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("operator");
    await hf.enqueue(never, {}, { queue: "slow" });
    await client.queues.pause({ queue: "other" });
    expect(checked("queues.pauseAll", await client.queues.pauseAll())).toEqual({ paused: true });
    expect(checked("jobs.stats", await client.jobs.stats()).paused).toBe(true);
    expect((await client.summary()).stats.paused).toBe(true);
    expect(checked("queues.list", await client.queues.list())).toMatchObject({
      paused: true,
      queues: [
        { queue: "other", paused: true },
        { queue: "slow", paused: false },
      ],
    });
    expect(await hf.drain()).toBe(0);
    expect(checked("queues.resumeAll", await client.queues.resumeAll())).toEqual({ paused: false });
    expect(await client.queues.list()).toMatchObject({ paused: false, queues: [{ paused: true }, { paused: false }] });
    expect((await client.summary()).stats.paused).toBe(false);
    expect(await hf.drain()).toBe(1);
    expect(await errorOf(client.queues.pause({ queue: "*" }))).toMatchObject({ status: 400 });
  });
});
