import { InvalidOptionError, StoreUnavailableError } from "holdfast";
import { admin as newAdmin, adminClient, type AdminClient } from "holdfast/admin";
import { job } from "holdfast";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { engineOf } from "#src/engine/client/holdfast.js";
import { until } from "#src/testing/exercise-store/until.js";
import { deferred } from "../engine/scene.js";
import { checked, ended, errorOf } from "./results.js";
import { adminScene, adminStores, mail, never } from "./scene.js";

const STORES = adminStores();

describe.each(STORES)("the admin API on %s", (_name, store) => {
  it("C-17 lists jobs by filter, page and offset", async () => {
    const { hf, as } = await adminScene(store());
    const ids: string[] = [];
    for (let nth = 0; nth < 7; nth++) ids.push((await hf.enqueue(mail, { to: nth === 3 ? "invalid" : `${nth}` })).id);
    await hf.enqueue(never, {}, { delay: "1h", queue: "slow", user: "ada", tags: ["x"] });
    await hf.drain();
    const client = await as("viewer");
    const newest = ids.toReversed();

    const all = checked("jobs.list", await client.jobs.list({ type: ["mail"] }));
    expect(all.jobs.map(({ id }) => id)).toEqual(newest);
    for (const job of all.jobs)
      for (const field of ["input", "output", "log", "attempts"]) expect(job).not.toHaveProperty(field);
    expect((await client.jobs.list({ state: ["dead"] })).jobs.map(({ id }) => id)).toEqual([ids[3]]);
    expect((await client.jobs.list({ state: ["pending", "dead"] })).jobs.map(({ type }) => type)).toEqual([
      "never",
      "mail",
    ]);
    for (const filter of [
      { queue: ["slow"] },
      { user: "ada" },
      { tag: "x" },
      { createdAfter: "2020-01-01T00:00:00Z", type: ["never"] },
    ]) {
      expect((await client.jobs.list(filter)).jobs.map(({ type }) => type)).toEqual(["never"]);
    }

    const first = await client.jobs.list({ type: ["mail"], limit: 3 });
    const second = await client.jobs.list({ type: ["mail"], limit: 3, cursor: first.cursor ?? "" });
    expect([...first.jobs, ...second.jobs].map(({ id }) => id)).toEqual(newest.slice(0, 6));
    const later = await client.jobs.list({ type: ["mail"], limit: 2, offset: 4 });
    expect(later.jobs.map(({ id }) => id)).toEqual(newest.slice(4, 6));
    expect(await client.jobs.list({ type: ["mail"], offset: 7 })).toEqual({ jobs: [], cursor: null, examined: 0 });
  });

  it("skips to an offset without reading the jobs", async () => {
    const { hf, as } = await adminScene(store());
    const ids: string[] = [];
    for (let nth = 0; nth < 8; nth++)
      ids.push((await hf.enqueue(never, {}, { delay: "1h", user: nth % 2 === 0 ? "ada" : "bob" })).id);
    const newest = ids.toReversed();
    const [viewer, ada] = [await as("viewer"), await as("user", "ada")];
    const { store: asked } = engineOf(hf);
    const read: number[] = [];
    const list = asked.list.bind(asked);
    Object.assign(asked, {
      async list(...args: Parameters<typeof list>) {
        const page = await list(...args);
        read.push(page.jobs.length);
        return page;
      },
    });
    const found = async (page: Promise<{ jobs: { id: string }[] }>): Promise<string[]> =>
      (await page).jobs.map(({ id }) => id);
    expect(await found(viewer.jobs.list({ state: ["pending"], limit: 2, offset: 5 }))).toEqual(newest.slice(5, 7));
    expect(await found(ada.jobs.list({ limit: 2, offset: 1 }))).toEqual([newest[3], newest[5]]);
    expect(await found(ada.jobs.list({ offset: 4 }))).toEqual([]);
    expect(read).toEqual([2, 2]);
  });

  it("combines short pages of the store", async () => {
    const { hf, as } = await adminScene(store());
    const ids: string[] = [];
    for (let nth = 0; nth < 7; nth++) ids.push((await hf.enqueue(mail, { to: `${nth}` })).id);
    const newest = ids.toReversed();
    const client = await as("viewer");
    const { store: asked } = engineOf(hf);
    const whole = asked.list.bind(asked);
    asked.list = (filter, page) => {
      expect(page).toMatchObject({ payloads: false });
      return whole(filter, { ...page, limit: 1 });
    };
    // They are combined for 50 ms, which a busy machine may need for one of them.
    const time = vi.spyOn(performance, "now").mockReturnValue(0);
    onTestFinished(() => time.mockRestore());
    expect((await client.jobs.list({ limit: 3 })).jobs.map(({ id }) => id)).toEqual(newest.slice(0, 3));
    // Also if the store cannot skip, so that skipped jobs are listed.
    delete asked.skip;
    const later = await client.jobs.list({ limit: 2, offset: 4 });
    expect(later.jobs.map(({ id }) => id)).toEqual(newest.slice(4, 6));
    expect(await client.jobs.list({ offset: 7 })).toEqual({ jobs: [], cursor: null, examined: 0 });
    expect((await client.summary()).stats.pending).toBe(7);
  });

  it("limits counts to the 200 largest queues and types", async () => {
    const { hf, as, send, token } = await adminScene(store());
    const { store: asked } = engineOf(hf);
    const real = await asked.stats();
    const long = "x".repeat(140);
    // The larger its number, the more jobs a type has. Two have special names: "other" and "__proto__".
    const types = Array.from({ length: 5_000 }, (_, nth) => ({ type: `${long}${nth}`, count: nth + 1 }));
    const counts = [...types, { type: "other", count: 9_999 }, { type: "__proto__", count: 99_999 }].flatMap(
      ({ type, count }, nth) => [
        { queue: `q${nth % 300}`, type, state: "pending" as const, count },
        { queue: `q${nth % 7}`, type, state: "dead" as const, count: 1 },
      ],
    );
    Object.assign(asked, { stats: () => Promise.resolve({ ...real, counts }) });
    const client = await as("viewer");
    const stats = checked("jobs.stats", await client.jobs.stats());
    const whole = await hf.stats();
    expect(Object.keys(whole.types)).toHaveLength(5_002);
    expect(JSON.stringify(stats).length).toBeLessThan(300_000);
    expect(stats.states).toEqual(whole.states);
    for (const names of [stats.types, stats.queues]) {
      expect(Object.keys(names)).toHaveLength(201);
      for (const state of ["pending", "dead"] as const) {
        expect(Object.values(names).reduce((sum, each) => sum + each[state], 0)).toBe(whole.states[state]);
      }
    }
    expect(stats.types[`${long}4999`]).toMatchObject({ pending: 5_000, dead: 1 });
    expect(Object.getOwnPropertyDescriptor(stats.types, "__proto__")?.value).toMatchObject({ pending: 99_999 });
    expect(stats.types["other"]).toMatchObject({ dead: 5_002 - 200 });
    expect(stats.counts.length).toBeLessThanOrEqual(1_007);
    expect(stats.counts.reduce((sum, { count }) => sum + count, 0)).toBe(whole.states.pending + whole.states.dead);
    const stream = await send("/api/admin/events", { token: await token("viewer") });
    const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!/event: stats\ndata: .*\n\n/.test(text)) text += (await reader?.read())?.value ?? "";
    await reader?.cancel();
    expect(JSON.parse(/event: stats\ndata: (.*)\n\n/.exec(text)?.[1] ?? "")).toMatchObject({ types: stats.types });
  });

  it("C-17 gets, retries and cancels a job", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("operator");
    const { id } = await hf.enqueue(mail, { to: "invalid" });
    await hf.drain();
    const job = checked("jobs.get", await client.jobs.get({ id }));
    expect(job).toMatchObject({
      state: "dead",
      input: { to: "invalid" },
      error: { message: "no such address" },
      attempts: [
        {
          attempt: 1,
          fence: 1,
          end: "failed",
          error: { message: "no such address", stack: expect.stringContaining("Error") },
        },
      ],
      fence: 1,
      parent: null,
      timeoutMs: null,
      log: [{ line: "to invalid" }],
      progress: { fraction: 0.5, note: "half", data: null },
    });
    expect(checked("jobs.retry", await client.jobs.retry({ id }))).toEqual({ status: "retried" });
    expect((await client.jobs.get({ id })).state).toBe("pending");
    expect(await errorOf(client.jobs.retry({ id }))).toMatchObject({
      status: 409,
      code: "INVALID_STATE",
      message: expect.stringContaining("is pending"),
    });
    expect(checked("jobs.cancel", await client.jobs.cancel({ id }))).toEqual({ status: "cancelled" });
    expect(await errorOf(client.jobs.cancel({ id }))).toMatchObject({
      status: 409,
      message: expect.stringContaining("is cancelled"),
    });
    const missing = "01a1e0d0-d1c0-79bf-a2c2-8d02453060e6";
    for (const call of [client.jobs.get, client.jobs.retry, client.jobs.cancel, client.jobs.rerun]) {
      expect(await errorOf(call({ id: missing }))).toMatchObject({ status: 404, code: "JOB_NOT_FOUND" });
    }
    expect(await errorOf(client.jobs.get({ id: "nonsense" }))).toMatchObject({ status: 400, issues: [{ path: "id" }] });
  });

  it("C-17 E-11 returns counts, oldest due job and latest failures", async () => {
    const { hf, as } = await adminScene(store());
    await hf.enqueue(mail, { to: "invalid" });
    await hf.drain();
    await hf.enqueue(mail, { to: "a" });
    await hf.enqueue(mail, { to: "b" });
    const client = await as("viewer");
    const stats = checked("jobs.stats", await client.jobs.stats());
    expect(stats.states).toMatchObject({ pending: 2, dead: 1, completed: 0 });
    expect(stats.oldestDueMs).toBeGreaterThanOrEqual(0);
    expect(stats.oldestDue).toContainEqual({ queue: "default", dueMs: stats.oldestDueMs });
    const summary = await client.summary();
    expect(summary.stats).toMatchObject({ pending: 2, dead: 1 });
    expect(summary.recentFailures).toMatchObject([{ state: "dead", error: { message: "no such address" } }]);
  });

  it("finds the latest failures behind a backlog", async () => {
    const flaky = job({
      type: "flaky",
      retry: { maxAttempts: 2, backoff: () => 900_000 },
      run: () => Promise.reject(new Error("not yet")),
    });
    const { hf, as } = await adminScene(store(), {}, { jobs: [mail, never, flaky] });
    await hf.enqueue(mail, { to: "invalid" });
    await hf.enqueue(flaky);
    await hf.drain();
    await hf.enqueueMany(
      never,
      Array.from({ length: 20_000 }, () => ({})),
      { delay: "5m" },
    );
    const summary = await (await as("viewer")).summary();
    expect(summary.stats).toMatchObject({ pending: 20_000, dead: 1, failed: 1 });
    expect(summary.recentFailures.map(({ state }) => state).toSorted()).toEqual(["dead", "failed"]);
  });

  it("enqueues by type name and validates known types", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("operator");
    const { id } = checked(
      "jobs.enqueue",
      await client.jobs.enqueue({ type: "mail", input: { to: "ada" }, priority: 5, unique: "once", delay: "1h" }),
    );
    expect(await hf.get(id)).toMatchObject({
      type: "mail",
      input: { to: "ada" },
      priority: 5,
      key: "once",
      state: "pending",
    });
    expect(await client.jobs.enqueue({ type: "mail", input: { to: "ada" }, unique: "once" })).toMatchObject({
      id,
      duplicate: true,
    });
    expect(await errorOf(client.jobs.enqueue({ type: "mail", input: { to: 5 } }))).toMatchObject({
      status: 400,
      code: "INVALID_INPUT",
      issues: [{ path: "input.to" }],
    });
    const other = await client.jobs.enqueue({ type: "elsewhere", input: { any: ["thing"] } });
    expect(await hf.get(other.id)).toMatchObject({ type: "elsewhere", input: { any: ["thing"] } });
  });

  it("reruns a job, optionally with another input", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("operator");
    const { id } = await hf.enqueue(mail, { to: "invalid" }, { priority: 7 });
    await hf.drain();
    const again = checked("jobs.rerun", await client.jobs.rerun({ id, input: { to: "ada" } }));
    expect(await hf.get(again.id)).toMatchObject({ input: { to: "ada" }, priority: 7, state: "pending" });
    expect(await errorOf(client.jobs.rerun({ id, input: {} }))).toMatchObject({ status: 400, code: "INVALID_INPUT" });
    expect(await hf.get((await client.jobs.rerun({ id })).id)).toMatchObject({ input: { to: "invalid" } });
  });

  it("changes many jobs in the background with progress", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("admin");
    for (let nth = 0; nth < 5; nth++) await hf.enqueue(mail, { to: "invalid" });
    await hf.drain();
    const retry = checked(
      "jobs.retryMany",
      await client.jobs.retryMany({ filter: { state: ["dead"], type: ["mail"] } }),
    );
    expect(retry).toMatchObject({ action: "retry", total: 5 });
    expect(await ended(client, retry)).toMatchObject({ state: "done", examined: 5, changed: 5, error: null });
    const ids = (await client.jobs.list({ state: ["pending"] })).jobs.map(({ id }) => id);
    expect(await ended(client, await client.jobs.cancelMany({ ids: ids.slice(0, 2) }))).toMatchObject({
      state: "done",
      changed: 2,
    });
    expect(await ended(client, await client.jobs.removeMany({ ids }))).toMatchObject({ changed: 5, total: 5 });
    expect((await client.jobs.stats()).states).toMatchObject({ pending: 0, cancelled: 0, dead: 0 });
    expect((await client.operations.list()).operations).toHaveLength(3);
    for (const nothing of [{}, { ids, filter: { state: ["dead"] as const } }, { filter: {} }]) {
      expect(await errorOf(client.jobs.cancelMany(nothing))).toMatchObject({ status: 400 });
    }
  });

  it("purges old finished jobs", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("admin");
    await hf.enqueue(mail, { to: "ada" });
    await hf.drain();
    expect(await ended(client, await client.jobs.purge({ state: "completed", olderThan: "1h" }))).toMatchObject({
      changed: 0,
    });
    expect(await ended(client, await client.jobs.purge({ state: "completed", olderThan: 0 }))).toMatchObject({
      state: "done",
      changed: 1,
    });
  });

  it("C-17 creates, updates, previews, runs and deletes schedules", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("operator");
    const name = "a/b %é";
    const made = checked(
      "schedules.create",
      await client.schedules.create({
        name,
        job: "mail",
        input: { to: "ada" },
        cron: "0 8 * * *",
        timezone: "Europe/Berlin",
      }),
    );
    expect(made).toMatchObject({
      name,
      origin: "runtime",
      enabled: true,
      cron: "0 8 * * *",
      nextRunAt: expect.any(String),
    });
    expect(
      await errorOf(client.schedules.create({ name, job: "mail", input: { to: "ada" }, every: "1m" })),
    ).toMatchObject({ status: 409, code: "SCHEDULE_EXISTS" });
    expect(
      await errorOf(client.schedules.create({ name: "bad", job: "mail", input: { to: "ada" }, cron: "61 * * * *" })),
    ).toMatchObject({ status: 400, issues: [{ path: "cron" }] });
    expect(
      await errorOf(client.schedules.create({ name: "bad", job: "mail", input: {}, cron: "* * * * *" })),
    ).toMatchObject({ status: 400, code: "INVALID_INPUT" });
    expect(checked("schedules.disable", await client.schedules.disable({ name }))).toMatchObject({
      enabled: false,
      nextRunAt: null,
    });
    expect(await client.schedules.enable({ name })).toMatchObject({ enabled: true });
    expect(await client.schedules.update({ name, cron: "30 9 * * *", priority: 3 })).toMatchObject({
      cron: "30 9 * * *",
      priority: 3,
    });
    const { runs } = checked("schedules.next", await client.schedules.next({ name, count: 3 }));
    expect(runs).toHaveLength(3);
    expect((await client.schedules.preview({ every: "15m", count: 2 })).runs).toHaveLength(2);
    const { id } = checked("schedules.run", await client.schedules.run({ name }));
    expect(await hf.get(id)).toMatchObject({ type: "mail", schedule: { name } });
    expect(checked("schedules.get", await client.schedules.get({ name })).slots).toMatchObject([
      { job: id, reason: "manual" },
    ]);
    expect(checked("schedules.list", await client.schedules.list()).schedules.map((each) => each.name)).toEqual([name]);
    expect(await errorOf(client.schedules.get({ name: ".." }))).toMatchObject({
      status: 400,
      issues: [{ path: "name" }],
    });
    expect(await client.schedules.remove({ name })).toEqual({ status: "removed" });
    expect(await errorOf(client.schedules.get({ name }))).toMatchObject({ status: 404 });
  });

  it("pauses queues and lists workers and types", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("operator");
    await hf.enqueue(mail, { to: "ada" });
    expect(await client.queues.pause({ queue: "default" })).toEqual({ queue: "default", paused: true });
    expect(checked("queues.list", await client.queues.list()).queues).toMatchObject([
      { queue: "default", paused: true },
    ]);
    expect(await hf.drain()).toBe(0);
    await client.queues.resume({ queue: "default" });
    const worker = hf.work({ concurrency: 3 });
    await until("the worker to be seen", async () => (await client.workers.list()).workers.length > 0);
    expect(checked("workers.list", await client.workers.list()).workers).toMatchObject([
      { concurrency: 3, left: false },
    ]);
    expect(await client.types.list()).toEqual({ types: ["mail", "never"] });
    await worker.stop();
  });

  it("rejects bulk changes with an invalid id", async () => {
    const { hf, as } = await adminScene(store());
    const admin = await as("admin");
    const made = await hf.enqueueMany(
      never,
      Array.from({ length: 150 }, () => ({})),
    );
    const ids = made.map(({ id }) => String(id));
    for (const change of [admin.jobs.cancelMany, admin.jobs.retryMany, admin.jobs.removeMany]) {
      for (const wrong of ["nope", "", `${ids[0]}0`]) {
        const error = await errorOf(change({ ids: [...ids, wrong] }));
        expect(error).toMatchObject({ status: 400, code: "INVALID_REQUEST", issues: [{ path: "ids.150" }] });
        expect(error.message).toContain(`${JSON.stringify(wrong)} is not a UUID`);
      }
    }
    expect(await admin.operations.list()).toEqual({ operations: [] });
    expect((await hf.stats()).states).toMatchObject({ pending: 150, cancelled: 0 });
    // Upper-case ids are accepted, as in every other call.
    const capitals = ids.map((id) => id.toUpperCase());
    expect(await ended(admin, await admin.jobs.cancelMany({ ids: capitals }))).toMatchObject({ changed: 150 });
  });

  it("B-18 records every change in the audit log", async () => {
    const { as } = await adminScene(store(), {}, { redact: ["**.secret"] });
    const [operator, admin] = [await as("operator"), await as("admin")];
    const { id } = await operator.jobs.enqueue({
      type: "mail",
      queue: "default",
      input: { to: "ada", secret: "hush" },
    });
    await operator.jobs.cancel({ id });
    await operator.queues.pause({ queue: "default" });
    await ended(admin, await admin.jobs.removeMany({ filter: { state: ["cancelled"] } }));
    await errorOf(operator.jobs.cancel({ id }));
    await operator.jobs.list();
    await until("all audit entries", async () => (await admin.audit.list()).entries.length === 5);
    const { entries } = checked("audit.list", await admin.audit.list());
    expect(entries.map(({ actor, action, target, count }) => [actor, action, target, count])).toEqual([
      ["token:admin", "operation.delete", '{"filter":{"state":["cancelled"]}}', 1],
      ["token:admin", "jobs.removeMany", '{"state":["cancelled"]}', 0],
      ["token:operator", "queues.pause", "default", 1],
      ["token:operator", "jobs.cancel", id, 1],
      ["token:operator", "jobs.enqueue", id, 1],
    ]);
    expect(JSON.stringify(entries)).not.toContain("hush");
    expect((await admin.audit.list({ actor: "token:admin", action: "jobs.removeMany" })).entries).toHaveLength(1);
  });

  it("records a created token if later reads fail", async () => {
    const { hf, as } = await adminScene(store());
    const admin = await as("admin");
    const { store: asked } = engineOf(hf);
    const listTokens = asked.listTokens.bind(asked);
    Object.assign(asked, { listTokens: () => Promise.reject(new StoreUnavailableError("out", new Error("out"))) });
    const made = checked("tokens.create", await admin.tokens.create({ name: "ci", role: "viewer", expiresIn: "1h" }));
    Object.assign(asked, { listTokens });
    const { token, ...rest } = made;
    expect((await admin.tokens.list()).tokens).toContainEqual(rest);
    expect(await hf.tokens.check(token)).toMatchObject({ id: made.id });
    expect((await hf.audit.list()).entries).toMatchObject([{ action: "tokens.create", target: made.id, count: 1 }]);
  });

  it("records cancelled jobs if later reads fail", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("operator");
    const { store: asked } = engineOf(hf);
    const ids: string[] = [];
    for (let nth = 0; nth < 6; nth++) ids.push((await hf.enqueue(never, {}, { delay: "1h" })).id);
    const get = asked.get.bind(asked);
    Object.assign(asked, { get: () => Promise.reject(new StoreUnavailableError("out", new Error("out"))) });
    expect(await client.jobs.cancel({ id: ids[0] ?? "" })).toEqual({ status: "cancelled" });
    const byIds = await ended(client, await client.jobs.cancelMany({ ids: ids.slice(1, 4) }));
    const byFilter = await ended(client, await client.jobs.cancelMany({ filter: { state: ["pending"] } }));
    Object.assign(asked, { get });
    expect(byIds).toMatchObject({ state: "done", changed: 3 });
    expect(byFilter).toMatchObject({ state: "done", changed: 2 });
    const { entries } = await hf.audit.list();
    expect(entries.map(({ action, count }) => [action, count])).toEqual([
      ["operation.cancel", 2],
      ["jobs.cancelMany", 0],
      ["operation.cancel", 3],
      ["jobs.cancelMany", 0],
      ["jobs.cancel", 1],
    ]);
  });

  it("finishes changes in flight and rejects new ones on close", async () => {
    const { hf, api, as } = await adminScene(store());
    const client = await as("operator");
    const ids: string[] = [];
    for (let nth = 0; nth < 4; nth++) ids.push((await hf.enqueue(never, {}, { delay: "1h" })).id);
    // The operation by type must not reach this one before the call that cancels it alone.
    const alone = await hf.enqueueNamed("alone", {}, { delay: "1h" });
    const { store: asked } = engineOf(hf);
    const [cancel, stats] = [asked.cancel.bind(asked), asked.stats.bind(asked)];
    const gate = deferred();
    onTestFinished(() => gate.resolve());
    const [cancelling, counting] = [deferred(), deferred()];
    let cancels = 0;
    Object.assign(asked, {
      async cancel(...args: Parameters<typeof cancel>) {
        if (++cancels === 2) cancelling.resolve();
        await gate.promise;
        return cancel(...args);
      },
      async stats() {
        counting.resolve();
        await gate.promise;
        return stats();
      },
    });
    const operation = await client.jobs.cancelMany({ ids: ids.slice(0, 2) });
    const single = client.jobs.cancel({ id: alone.id });
    // This one counts the matching jobs before it starts.
    const counted = client.jobs.cancelMany({ filter: { type: ["never"] } });
    await Promise.all([cancelling.promise, counting.promise]);
    const closing = api.close();
    const late = [() => client.jobs.cancelMany({ ids }), () => client.jobs.cancel({ id: ids[3] ?? "" })];
    for (const call of late) expect(await errorOf(call())).toMatchObject({ status: 503, code: "SHUTTING_DOWN" });
    expect(await client.operations.get({ id: operation.id })).toMatchObject({ state: "running" });
    gate.resolve();
    await closing;
    // Another server continues what was not finished.
    const other = newAdmin(hf);
    onTestFinished(() => other.close());
    await until("the ends", async () => (await asked.operations()).every(({ state }) => state === "done"));
    const { entries } = await hf.audit.list();
    expect(await single).toEqual({ status: "cancelled" });
    expect(entries.filter(({ action }) => action === "jobs.cancel")).toMatchObject([{ target: alone.id, count: 1 }]);
    const begun = [operation.id, (await counted).id].toSorted();
    const operationsOf = (action: string): unknown[] =>
      entries
        .filter((entry) => entry.action === action)
        .map(({ detail }) => (detail as { operation: string }).operation)
        .toSorted();
    expect(operationsOf("jobs.cancelMany")).toEqual(begun);
    expect(operationsOf("operation.cancel")).toEqual(begun);
  });

  it("records the token id with each audit entry", async () => {
    const { hf, url, send } = await adminScene(store(), {}, { redact: ["**.token", "detail"] });
    const [one, two] = [
      await hf.tokens.create({ name: "ci", role: "admin" }),
      await hf.tokens.create({ name: "ci", role: "admin" }),
    ];
    const [first, second] = [one, two].map(({ token }) => adminClient({ url, token })) as [AdminClient, AdminClient];
    await first.queues.pause({ queue: "default" });
    await second.queues.resume({ queue: "default" });
    const body = JSON.stringify({ token: two.token });
    const headers = { "content-type": "application/json" };
    const login = await send("/api/admin/session", { method: "POST", body, headers });
    const cookie = login.headers.getSetCookie()[0]?.split(";")[0] ?? "";
    await send("/api/admin/queues/slow/pause", { method: "POST", headers: { cookie } });
    // A payload that is too long for the audit log must not remove the token id.
    await first.jobs.enqueue({ type: "elsewhere", input: "x".repeat(20_000) });
    await ended(second, await second.jobs.cancelMany({ filter: { type: ["elsewhere"] } }));
    const { entries } = checked("audit.list", await first.audit.list({ actor: "token:ci" }));
    expect(entries.map(({ action, detail }) => [action, (detail as { token: string }).token])).toEqual([
      ["operation.cancel", two.id],
      ["jobs.cancelMany", two.id],
      ["jobs.enqueue", one.id],
      ["queues.pause", two.id],
      ["queues.resume", two.id],
      ["queues.pause", one.id],
    ]);
  });
});

it("rejects responses that are not from Holdfast", async () => {
  for (const [status, body, type, message] of [
    [200, "<p>Please log in", "text/html", "responded with status 200, but not as a Holdfast server"],
    [401, "<p>Please log in", "text/html", "responded with status 401, but not as a Holdfast server"],
    [502, "<p>Bad gateway", "text/html", "responded with status 502, but not as a Holdfast server"],
    [200, "{", "application/json", "responded with status 200, but not as a Holdfast server"],
    [200, '{"ok":true}', "application/json", "responded with status 200, but not as a Holdfast server"],
    [404, '{"error":"Not Found"}', "application/json", "responded with status 404, but not as a Holdfast server"],
    [400, '{"error":null}', "application/json", "responded with status 400, but not as a Holdfast server"],
    [302, "", "text/html", "redirects to https://elsewhere.example.com/; use that URL"],
  ] as const) {
    const headers = { "content-type": type, ...(status === 302 && { location: "https://elsewhere.example.com/" }) };
    const fetch = (): Promise<Response> => Promise.resolve(new Response(body, { status, headers }));
    const client = adminClient({ url: "https://jobs.example.com", fetch });
    expect(await errorOf(client.jobs.stats())).toMatchObject({
      status,
      code: "UNEXPECTED_RESPONSE",
      message: `https://jobs.example.com ${message}`,
    });
  }
});

it("rejects a URL with credentials without showing them", () => {
  for (const url of ["https://ada:secret@jobs.example.com", "https://secret@jobs.example.com"]) {
    const made = (): unknown => adminClient({ url });
    expect(made).toThrow("url must not contain a user name or password");
    expect(made).not.toThrow("secret");
  }
});

it("requires the URL of the server outside a browser", () => {
  expect(() => adminClient()).toThrow(InvalidOptionError);
  expect(() => adminClient({ token: "x" })).toThrow("url is required outside a browser");
  vi.stubGlobal("location", { origin: "https://jobs.example.com" });
  onTestFinished(() => void vi.unstubAllGlobals());
  expect(() => adminClient()).not.toThrow();
});

it("names an unreachable server and keeps the cause", async () => {
  const client = adminClient({ url: "http://127.0.0.1:1" });
  const error = await errorOf(client.jobs.stats());
  expect(error).toMatchObject({ status: 0, code: "SERVER_UNREACHABLE", issues: [] });
  expect(error.message).toMatch(/^http:\/\/127\.0\.0\.1:1 cannot be reached: ./);
  expect(error.cause).toBeInstanceOf(TypeError);
  const mine = new Error("mine");
  const other = adminClient({ url: "http://127.0.0.1:1", fetch: () => Promise.reject(mine) });
  await expect(other.jobs.stats()).rejects.toBe(mine);
});
