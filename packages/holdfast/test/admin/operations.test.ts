import { fork } from "node:child_process";
import { on, once } from "node:events";
import { fileURLToPath } from "node:url";
import { holdfast, StoreUnavailableError, type Holdfast } from "holdfast";
import { adminClient, type Admin, type AdminClient, type OperationResult } from "holdfast/admin";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { adminOf } from "#src/admin/http/app.js";
import type { OperationsOptions } from "#src/admin/calls/operations.js";
import { engineOf } from "#src/engine/client/holdfast.js";
import { until } from "#src/testing/exercise-store/until.js";
import { deferred } from "../engine/scene.js";
import { addressOf, clientSchema, prepareSchema } from "../postgres/scene.js";
import { postgresServer } from "../postgres/server.js";
import { newFile } from "../sqlite-file.js";
import { checked, ended, errorOf } from "./results.js";
import { mail, never } from "./scene.js";

const postgres = postgresServer();
prepareSchema(postgres);
const STORES: readonly [name: string, url: () => Promise<string>][] = [
  ["SQLite", async () => `sqlite:${await newFile()}`],
  ["PostgreSQL", async () => addressOf(postgres.url(), clientSchema(postgres))],
];
const DEAD = { filter: { state: ["dead"] } } as const;

interface Server {
  hf: Holdfast;
  api: Admin;
  client: AdminClient;
}

/** A server of the admin API, in this process. */
async function serverOn(
  store: string,
  options: Partial<OperationsOptions> = {},
  more: Parameters<typeof holdfast>[0] = {},
): Promise<Server> {
  const hf = await holdfast({ store, jobs: [mail, never], logger: false, ...more });
  const api = adminOf(hf, { auth: () => ({ name: "ada", role: "admin", user: null }) }, { leaseMs: 500, ...options });
  onTestFinished(async () => {
    await api.close();
    await hf.close();
  });
  return { hf, api, client: adminClient({ fetch: (request) => api.fetch(request) }) };
}

async function cancelledJobs(hf: Holdfast, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (const { id } of await hf.enqueueMany(
    never,
    Array.from({ length: count }, () => ({})),
  ))
    ids.push(String(id));
  await hf.cancel(ids);
  return ids;
}
const CANCELLED = { filter: { state: ["cancelled"] } } as const;

/** The audit entries for the ends of operations. */
async function endsOf(hf: Holdfast): Promise<{ action: string; count: number; detail: unknown; actor: string }[]> {
  const { entries } = await hf.audit.list();
  return entries.filter(({ action }) => action.startsWith("operation."));
}

describe.each(STORES)("operations on %s", (_name, newStore) => {
  it("are listed and stopped on every server", async () => {
    const store = await newStore();
    const [one, two] = [await serverOn(store), await serverOn(store)];
    await cancelledJobs(one.hf, 30);
    const started = checked("jobs.retryMany", await one.client.jobs.retryMany({ ...CANCELLED, rate: 5 }));
    expect(started).toMatchObject({
      state: "running",
      rate: 5,
      limit: null,
      total: 30,
      target: CANCELLED,
      actor: "ada",
    });
    await until("progress on the other server", async () => {
      const { operations } = checked("operations.list", await two.client.operations.list());
      return (operations[0]?.changed ?? 0) >= 5;
    });
    const stopped = checked("operations.stop", await two.client.operations.stop({ id: started.id }));
    expect(stopped).toMatchObject({ id: started.id, state: "stopped", error: null });
    expect(stopped.endedAt).not.toBeNull();
    expect(await one.client.operations.get({ id: started.id })).toEqual(stopped);
    expect((await one.hf.stats()).states.pending).toBe(stopped.changed);
    expect(await endsOf(one.hf)).toMatchObject([{ action: "operation.retry", actor: "ada", count: stopped.changed }]);
    const unknown = { status: 404, code: "OPERATION_NOT_FOUND" };
    for (const id of ["nothing", "018f4d2e-7b3a-7c11-8a55-00000000000a"]) {
      expect(await errorOf(two.client.operations.stop({ id }))).toMatchObject(unknown);
      expect(await errorOf(two.client.operations.get({ id }))).toMatchObject(unknown);
    }
  });

  it("continue on another server after a SIGKILL", async () => {
    const store = await newStore();
    const { hf, client } = await serverOn(store);
    await cancelledJobs(hf, 200);
    const fixture = fileURLToPath(new URL("../fixtures/operation-server.mjs", import.meta.url));
    const child = fork(fixture, [store, JSON.stringify({ ...CANCELLED, rate: 40 })]);
    onTestFinished(() => void child.kill("SIGKILL"));
    const exit = once(child, "exit");
    let id = "";
    for await (const [message] of on(child, "message", { close: ["exit"] })) {
      const sent = message as { id?: string; changed?: number };
      id = sent.id ?? id;
      if ((sent.changed ?? 0) >= 80) break;
    }
    child.kill("SIGKILL");
    await exit;
    const before = await client.operations.get({ id });
    expect(before).toMatchObject({ state: "running", total: 200 });
    expect(before.process).toMatch(new RegExp(`:${child.pid}$`));
    const operation = await until("the end", async () => {
      // A list finds the operation without a server.
      const { operations } = await client.operations.list();
      return operations.find((each) => each.state === "done");
    });
    expect(operation).toMatchObject({ id, process: expect.stringMatching(new RegExp(`:${process.pid}$`)) as string });
    expect((await hf.stats()).states).toMatchObject({ pending: 200, cancelled: 0 });
    // The jobs of the last second, or two if it was late, are changed, but may not be counted.
    expect(operation.changed).toBeGreaterThanOrEqual(200 - 80);
    expect(operation.changed).toBeLessThanOrEqual(200);
    expect(await endsOf(hf)).toMatchObject([{ action: "operation.retry", count: operation.changed }]);
  });

  it("continue on another server after a shutdown", async () => {
    const store = await newStore();
    const one = await serverOn(store);
    const ids = await cancelledJobs(one.hf, 40);
    const { id } = await one.client.jobs.retryMany({ ids, rate: 10 });
    await until("progress", async () => (await one.client.operations.get({ id })).changed > 0);
    await one.api.close();
    // A server that starts asks for abandoned operations.
    const two = await serverOn(store);
    expect(await ended(two.client, { id } as OperationResult)).toMatchObject({
      state: "done",
      examined: 40,
      changed: 40,
      skipped: {},
    });
    expect(await endsOf(two.hf)).toMatchObject([{ count: 40 }]);
  });

  it("of a server that is gone are ended by a stop", async () => {
    const store = await newStore();
    const one = await serverOn(store);
    await cancelledJobs(one.hf, 10);
    const { id } = await one.client.jobs.retryMany({ ...CANCELLED, rate: 1 });
    await one.api.close();
    // It does not continue operations by itself, so the stop finds this one without a server.
    const two = await serverOn(store, { isServer: false });
    const three = await serverOn(store);
    expect(await two.client.operations.stop({ id })).toMatchObject({ state: "stopped" });
    expect(await endsOf(three.hf)).toHaveLength(1);
  });

  it("survive an outage of the store", async () => {
    const { hf, client } = await serverOn(await newStore(), { leaseMs: 200 });
    await cancelledJobs(hf, 10);
    const { store } = engineOf(hf);
    const retry = store.retry.bind(store);
    let outages = 0;
    const out = async (): Promise<never> => {
      outages++;
      throw new StoreUnavailableError("out");
    };
    Object.assign(store, { retry: out });
    const { id } = await client.jobs.retryMany(CANCELLED);
    await until("the outage", () => outages > 0);
    expect(await client.operations.get({ id })).toMatchObject({ state: "running", changed: 0 });
    Object.assign(store, { retry });
    const operation = await until("the end", async () => {
      const { operations } = await client.operations.list();
      return operations.find(({ state }) => state !== "running");
    });
    expect(operation).toMatchObject({ id, state: "done", changed: 10, error: null });
  });

  it("that cannot be read do not keep others from being listed and continued", async () => {
    const { hf, client } = await serverOn(await newStore());
    await cancelledJobs(hf, 3);
    const { store } = engineOf(hf);
    const filter = { state: ["cancelled"] };
    const plan = { action: "retry", filter, rate: null, limit: null, actor: "ada", tokenId: null };
    const counts = { examined: 0, found: 0, changed: 0, requested: 0, skipped: {}, unchanged: [], reasons: {} };
    const none = { changes: null, rate: null, limit: null, total: null, error: null, at: null, ending: null };
    const summary = { action: "retry", target: { filter }, actor: "ada", process: "p:1", ...counts, ...none };
    const texts = [
      ["no JSON", "{}"],
      ["null", "null"],
      ["[]", "[]"],
      [{ ...summary, found: "all" }, plan],
      [summary, "null"],
      [summary, { ...plan, action: "drop" }],
      [summary, { ...plan, rate: -1 }],
      [summary, { ...plan, ids: [] }],
      [summary, plan],
    ].map((row) => row.map((value) => (typeof value === "string" ? value : JSON.stringify(value))));
    for (const [at, [shown = "", what = ""]] of texts.entries()) {
      const id = `018f4d2e-7b3a-7c11-8a55-00000000000${at}`;
      await store.putOperation({ id, startedAt: at, summary: shown, plan: what }, { owner: "gone", leaseMs: 0 });
    }
    const listed = await until("the readable one", async () => {
      const { operations } = checked("operations.list", await client.operations.list());
      return operations.some(({ state }) => state === "done") ? operations : undefined;
    });
    expect(listed.map(({ id, state }) => [id.slice(-1), state])).toEqual([
      ["8", "done"],
      ["7", "failed"],
      ["6", "failed"],
      ["5", "failed"],
      ["4", "failed"],
    ]);
    expect(listed.at(-1)?.error).toBe("what is stored of it cannot be read");
    expect((await hf.stats()).states.pending).toBe(3);
    expect((await store.operations()).filter(({ state }) => state === "running")).toEqual([]);
    const id = "018f4d2e-7b3a-7c11-8a55-000000000000";
    expect(await errorOf(client.operations.get({ id }))).toMatchObject({ code: "OPERATION_NOT_FOUND" });
  });

  it("that fail with an internal error do not show it", async () => {
    const { hf, client } = await serverOn(await newStore());
    await cancelledJobs(hf, 1);
    Object.assign(engineOf(hf).store, { retry: async () => Promise.reject(new Error("/srv/secret.db is broken")) });
    const operation = await ended(client, await client.jobs.retryMany(CANCELLED));
    expect(operation).toMatchObject({ state: "failed", error: "internal error; see the server log" });
  });

  it("are audited once if the end is repeated", async () => {
    // Long enough that a busy machine loses the lease only where the test wants it.
    const { hf, client } = await serverOn(await newStore(), { leaseMs: 2_000 });
    await cancelledJobs(hf, 3);
    const { store } = engineOf(hf);
    const end = store.endOperation.bind(store);
    let failures = 0;
    Object.assign(store, {
      endOperation: async (...args: Parameters<typeof end>) => {
        if (failures++ === 0) throw new StoreUnavailableError("out");
        return end(...args);
      },
    });
    await client.jobs.retryMany(CANCELLED);
    const operation = await until("the end", async () => {
      const { operations } = await client.operations.list();
      return operations.find(({ state }) => state === "done");
    });
    expect(failures).toBe(2);
    expect(operation).toMatchObject({ changed: 3, examined: 3 });
    expect(await endsOf(hf)).toMatchObject([{ count: 3 }]);
  });

  it("change only the first jobs with a limit", async () => {
    const { hf, client } = await serverOn(await newStore());
    const ids = await cancelledJobs(hf, 25);
    const byFilter = await ended(client, await client.jobs.retryMany({ ...CANCELLED, limit: 10 }));
    expect(byFilter).toMatchObject({ state: "done", limit: 10, total: 10, examined: 10, changed: 10 });
    const pending = async (): Promise<string[]> =>
      (await hf.list({ state: "pending", limit: 100 })).jobs.map((job) => job.id);
    // The newest first, as in a list.
    expect((await pending()).toSorted()).toEqual(ids.slice(15).toSorted());
    const byIds = await ended(client, await client.jobs.retryMany({ ids, limit: 4 }));
    expect(byIds).toMatchObject({ total: 4, examined: 4, changed: 4, target: { count: 4 } });
    expect((await pending()).toSorted()).toEqual([...ids.slice(0, 4), ...ids.slice(15)].toSorted());
    const many = await ended(client, await client.jobs.cancelMany({ filter: { type: ["never"] }, limit: 1_000 }));
    expect(many).toMatchObject({ total: 25, examined: 25, changed: 14, skipped: { finished: 11 } });
  });

  it("count skipped jobs by reason, and preview that", async () => {
    const { hf, client } = await serverOn(await newStore());
    const ids = await cancelledJobs(hf, 3);
    await hf.enqueueMany(never, [{}, {}]);
    const missing = "018f4d2e-7b3a-7c11-8a55-00000000000a";
    const all = { filter: { type: ["never"] } };
    const preview = async (input: Parameters<AdminClient["jobs"]["preview"]>[0]): Promise<unknown> =>
      checked("jobs.preview", await client.jobs.preview(input));
    expect(await preview({ action: "retry", ...all })).toEqual({
      changes: 3,
      skipped: { "not-retryable": 2 },
      exact: true,
    });
    expect(await preview({ action: "cancel", ...all })).toEqual({ changes: 2, skipped: { finished: 3 }, exact: true });
    expect(await preview({ action: "delete", ids: [...ids, missing] })).toEqual({
      changes: 3,
      skipped: { missing: 1 },
      exact: true,
    });
    expect(await preview({ action: "promote", filter: { state: ["cancelled"] } })).toEqual({
      changes: 0,
      skipped: { "not-waiting": 3 },
      exact: true,
    });
    const promoted = await ended(client, await client.jobs.promoteMany(all));
    expect(promoted).toMatchObject({ examined: 5, changed: 2, skipped: { "not-waiting": 3 } });
    const retried = await ended(client, await client.jobs.retryMany({ ids: [...ids, missing], limit: 1_000 }));
    expect(retried).toMatchObject({ examined: 4, changed: 3, skipped: { missing: 1 }, unchanged: [missing] });
    for (const wrong of [{ action: "retry" as const }, { action: "retry" as const, filter: {} }])
      expect(await errorOf(client.jobs.preview(wrong))).toMatchObject({ status: 400 });
    for (const wrong of [{ rate: 0.05 }, { rate: 20_000 }, { limit: 0 }, { limit: 1.5 }])
      expect(await errorOf(client.jobs.retryMany({ ...DEAD, ...wrong }))).toMatchObject({ status: 400 });
  });

  it("show redacted changes, and continue with the real ones", async () => {
    const store = await newStore();
    const one = await serverOn(store, {}, { redact: ["input.secret"] });
    const ids = (await one.hf.enqueueMany(mail, [{ to: "bob" }, { to: "cid" }])).map(({ id }) => String(id));
    const many = { ids, rate: 1, input: { to: "ada", secret: "hunter2" } };
    const started = checked("jobs.updateMany", await one.client.jobs.updateMany(many));
    expect(started.changes).toEqual({ input: { to: "ada", secret: "[redacted]" } });
    await one.api.close();
    const two = await serverOn(store);
    expect(await ended(two.client, started)).toMatchObject({ state: "done", changes: started.changes });
    expect((await two.hf.list({ id: ids })).jobs.map(({ input }) => input)).toEqual(ids.map(() => many.input));
    expect(JSON.stringify(await engineOf(two.hf).store.operations())).not.toContain("hunter2");
  });
});

it("a rate changes as many jobs each second", async () => {
  const clock = fakeClock();
  const { hf, client } = await serverOn("sqlite::memory:", { leaseMs: 15_000 }, { clock });
  await cancelledJobs(hf, 100);
  const { id } = await client.jobs.retryMany({ ...CANCELLED, rate: 20 });
  const changed = async (): Promise<number> => (await client.operations.get({ id })).changed;
  for (const expected of [20, 40, 60, 80]) {
    await until(`${expected} jobs`, async () => (await changed()) === expected);
    await clock.advance(999);
    expect(await changed()).toBe(expected);
    await clock.advance(1);
  }
  expect(await ended(client, { id } as OperationResult)).toMatchObject({ state: "done", changed: 100 });

  const slow = await client.jobs.cancelMany({ filter: { state: ["pending"] }, rate: 0.5 });
  const cancelled = async (): Promise<number> => (await client.operations.get({ id: slow.id })).changed;
  for (const expected of [1, 2, 3]) {
    await until(`${expected} jobs`, async () => (await cancelled()) === expected);
    await clock.advance(2_000);
  }
  expect(await client.operations.stop({ id: slow.id })).toMatchObject({ state: "stopped" });
});

it("a long step keeps its lease", async () => {
  const clock = fakeClock();
  const { hf, client } = await serverOn("sqlite::memory:", { leaseMs: 15_000 }, { clock });
  await cancelledJobs(hf, 3);
  const { store } = engineOf(hf);
  const retry = store.retry.bind(store);
  const [gate, called] = [deferred(), deferred()];
  Object.assign(store, {
    async retry(...args: Parameters<typeof retry>) {
      called.resolve();
      await gate.promise;
      return retry(...args);
    },
  });
  const { id } = await client.jobs.retryMany(CANCELLED);
  await called.promise;
  await clock.advance("2m");
  expect(await store.getOperation(id)).toMatchObject({ abandoned: false, state: "running" });
  expect(await store.claimOperation({ owner: "other", leaseMs: 1_000 })).toBeNull();
  gate.resolve();
  expect(await ended(client, { id } as OperationResult)).toMatchObject({ state: "done", changed: 3 });
});

it("ended operations are listed for seven days", async () => {
  const clock = fakeClock();
  const { hf, client } = await serverOn("sqlite::memory:", {}, { clock });
  await cancelledJobs(hf, 2);
  const { id } = await ended(client, await client.jobs.retryMany(CANCELLED));
  const ids = async (): Promise<string[]> => (await client.operations.list()).operations.map((each) => each.id);
  await clock.advance(7 * 86_400_000 - 1_000);
  expect(await ids()).toEqual([id]);
  await clock.advance(2_000);
  expect(await ids()).toEqual([]);
  const next = await ended(client, await client.jobs.cancelMany({ filter: { type: ["never"] } }));
  expect(await ids()).toEqual([next.id]);
  expect(await engineOf(hf).store.getOperation(id)).toBeNull();
});

it("only four fast and twenty slow operations run at once", async () => {
  const clock = fakeClock();
  const { hf, client } = await serverOn("sqlite::memory:", {}, { clock });
  await cancelledJobs(hf, 50);
  const full = { status: 429, code: "TOO_MANY_OPERATIONS" };
  for (let nth = 0; nth < 20; nth++) await client.jobs.retryMany({ ...CANCELLED, rate: 0.1 });
  expect(await errorOf(client.jobs.retryMany({ ...CANCELLED, rate: 0.1 }))).toMatchObject(full);
  expect(await ended(client, await client.jobs.retryMany(CANCELLED))).toMatchObject({ state: "done" });
});

it.each([false, true])("an operation of a command line fails in an outage, also if it lasts: %s", async (lasts) => {
  const { hf, client } = await serverOn("sqlite::memory:", { isServer: false });
  await cancelledJobs(hf, 2);
  const out = async (): Promise<never> => Promise.reject(new StoreUnavailableError("out"));
  Object.assign(engineOf(hf).store, { retry: out, ...(lasts && { saveOperation: out }) });
  expect(await ended(client, await client.jobs.retryMany(CANCELLED))).toMatchObject({ state: "failed", error: "out" });
});

it("an operation of a command line ends with it", async () => {
  const { hf, api, client } = await serverOn("sqlite::memory:", { isServer: false });
  await cancelledJobs(hf, 5);
  const { id } = await client.jobs.retryMany({ ...CANCELLED, rate: 1 });
  await api.close();
  expect(await engineOf(hf).store.getOperation(id)).toMatchObject({ state: "stopped" });
  expect(await endsOf(hf)).toHaveLength(1);
});
