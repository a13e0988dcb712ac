import { job, type Holdfast, type JobType } from "holdfast";
import type { AdminClient, JobConditions } from "holdfast/admin";
import { describe, expect, it } from "vitest";
import { checked, ended, errorOf } from "./results.js";
import { adminScene, adminStores, mail, never } from "./scene.js";

const STORES = adminStores();

const REDACT = { redact: ["input.card.number", "progress.data.card"] };

async function found(client: AdminClient, conditions: JobConditions): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | null = null;
  do {
    const page: { jobs: { id: string }[]; cursor: string | null } = checked(
      "jobs.list",
      await client.jobs.list({ ...conditions, limit: 2, ...(cursor !== null && { cursor }) }),
    );
    ids.push(...page.jobs.map(({ id }) => id));
    ({ cursor } = page);
  } while (cursor !== null);
  return ids;
}

async function orders(hf: Holdfast, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let nth = 0; nth < count; nth++) {
    const input = { order: { id: `o-${nth}`, total: nth }, card: { number: `4242-${nth}` } };
    ids.push((await hf.enqueueNamed("order", input, { delay: "1h", priority: nth % 2 })).id);
  }
  return ids;
}

describe.each(STORES)("search on %s", (_name, store) => {
  it("finds schedules by words, page by page", async () => {
    const { hf, as } = await adminScene(store());
    for (let nth = 0; nth < 30; nth++) {
      const options = {
        job: mail,
        every: "1h",
        input: { to: "ada" },
        tags: [nth % 3 === 0 ? "Tax" : "other"],
      } as const;
      await hf.schedules.create(`nightly-${String(nth).padStart(2, "0")}`, options);
    }
    const viewer = await as("viewer");
    const pages: string[][] = [];
    let cursor: string | null = null;
    do {
      const page: { schedules: { name: string }[]; cursor: string | null } = checked(
        "schedules.list",
        await viewer.schedules.list({ search: "MAIL  tax", limit: 4, ...(cursor !== null && { cursor }) }),
      );
      pages.push(page.schedules.map(({ name }) => name));
      ({ cursor } = page);
    } while (cursor !== null);
    const tens = ["00", "03", "06", "09", "12", "15", "18", "21", "24", "27"].map((nth) => `nightly-${nth}`);
    expect(pages.flat()).toEqual(tens);
    expect(Math.max(...pages.map(({ length }) => length))).toBe(4);
    expect((await viewer.schedules.list({ search: "nothing" })).schedules).toEqual([]);
  });

  it("finds jobs by id, key, priority and parent", async () => {
    const parent: JobType = job({
      type: "parent",
      run: async ({ hf: own }) => void (await own.enqueue(never, {}, { delay: "1h", priority: 9 })),
    });
    const { hf, as } = await adminScene(store(), {}, { jobs: [mail, never, parent] });
    const client = await as("viewer");
    const keyed = await hf.enqueue(mail, { to: "ada" }, { unique: "k", delay: "1h" });
    const mine = await hf.enqueue(mail, { to: "ada" }, { unique: "k", user: "ada", delay: "1h" });
    const started = await hf.enqueue(parent);
    await hf.drain();
    const [child = ""] = await found(client, { parent: started.id });
    expect(await client.jobs.get({ id: child })).toMatchObject({ type: "never", parent: started.id });
    expect(await found(client, { id: [keyed.id, child] })).toEqual([child, keyed.id]);
    expect(await found(client, { key: "k" })).toEqual([keyed.id]);
    expect(await found(client, { key: "k", user: "ada" })).toEqual([mine.id]);
    expect(await found(client, { key: "other" })).toEqual([]);
    expect(await found(client, { priority: 9 })).toEqual([child]);
    expect(await found(await as("user", "ada"), { key: "k" })).toEqual([mine.id]);
    expect(await found(await as("user", "ada"), { id: [keyed.id, mine.id] })).toEqual([mine.id]);
    expect(await found(await as("user", "bob"), { key: "k" })).toEqual([]);
  });

  it("finds, counts and changes jobs by their error", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("admin");
    for (const to of ["invalid", "ada", "invalid"]) await hf.enqueue(mail, { to });
    await hf.drain();
    const dead = await found(client, { state: ["dead"] });
    expect(dead).toHaveLength(2);
    expect(await found(client, { error: "NO SUCH" })).toEqual(dead);
    expect(await found(client, { error: "no such", input: { path: "to", equals: "ada" } })).toEqual([]);
    expect(checked("jobs.count", await client.jobs.count({ error: "address" }))).toEqual({ count: 2, exact: true });
    expect(await client.jobs.preview({ action: "retry", filter: { error: "address" } })).toMatchObject({ changes: 2 });
    const retried = await ended(client, await client.jobs.retryMany({ filter: { error: "address" }, limit: 1 }));
    expect(retried).toMatchObject({ changed: 1, target: { filter: { error: "address" } } });
    expect(await found(client, { error: "address" })).toEqual(dead.slice(1));
    expect(await errorOf(client.jobs.list({ error: "a", offset: 1 }))).toMatchObject({ issues: [{ path: "offset" }] });
  });

  it("finds the key of a calendar period by its scope", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("operator");
    const scope = { calendar: "year", zone: "Europe/Berlin" } as const;
    const { id } = await hf.enqueue(mail, { to: "ada" }, { unique: { key: "k", scope }, delay: "1h" });
    expect(await found(client, { key: "k" })).toEqual([]);
    expect(await found(client, { key: "k", keyScope: scope })).toEqual([id]);
    expect(await client.jobs.count({ key: "k", keyScope: scope })).toEqual({ count: 1, exact: true });
    expect(await errorOf(client.jobs.list({ keyScope: scope }))).toMatchObject({
      status: 400,
      issues: [{ path: "keyScope" }],
    });
    await ended(client, await client.jobs.cancelMany({ filter: { key: "k", keyScope: scope } }));
    expect((await hf.get(id))?.state).toBe("cancelled");
  });

  it("lists the oldest first, by page and by offset", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("viewer");
    const ids = await orders(hf, 5);
    const oldest = { order: "oldest", limit: 2 } as const;
    const first = await client.jobs.list(oldest);
    expect(first.jobs.map(({ id }) => id)).toEqual(ids.slice(0, 2));
    const cursor = first.cursor ?? "";
    expect((await client.jobs.list({ ...oldest, cursor })).jobs.map(({ id }) => id)).toEqual(ids.slice(2, 4));
    const later = await client.jobs.list({ ...oldest, offset: 2 });
    expect(later.jobs.map(({ id }) => id)).toEqual(ids.slice(2, 4));
    expect((await client.jobs.list({ ...oldest, cursor: later.cursor ?? "" })).jobs.map(({ id }) => id)).toEqual(
      ids.slice(4),
    );
    for (const other of [{ cursor }, { ...oldest, cursor, priority: 1 }]) {
      expect(await errorOf(client.jobs.list(other))).toMatchObject({ status: 400, issues: [{ path: "cursor" }] });
    }
  });

  it("finds jobs by their input", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("viewer");
    const ids = await orders(hf, 5);
    expect(await found(client, { input: { path: "order.id", equals: "o-3" } })).toEqual([ids[3]]);
    expect(await found(client, { input: { path: "order.total", equals: 3 } })).toEqual([ids[3]]);
    expect(await found(client, { input: { path: "order.total", equals: "3" } })).toEqual([]);
    expect(await found(client, { input: { path: "order", text: "O-" }, priority: 1 })).toEqual([ids[3], ids[1]]);
    expect((await client.jobs.list({ input: { text: "none of them" } })).examined).toBe(5);
    expect(await errorOf(client.jobs.list({ input: { text: "o-" }, offset: 1 }))).toMatchObject({
      status: 400,
      issues: [{ path: "offset", message: "cannot be combined with input or error; use cursor pagination" }],
    });
    expect(await errorOf(client.jobs.list({ input: { path: "a..b", text: "x" } }))).toMatchObject({
      status: 400,
      issues: [{ path: "input.path" }],
    });
  });

  it("does not find redacted values", async () => {
    const { hf, as } = await adminScene(store(), {}, REDACT);
    const [operator, admin] = [await as("operator"), await as("admin")];
    const ids = await orders(hf, 3);
    const secrets = [
      { path: "card.number", equals: "4242-1" },
      { text: "4242-1" },
      { equals: { card: { number: "4242-1" } } },
    ];
    for (const input of secrets) {
      expect(await found(operator, { input })).toEqual([]);
      expect(await operator.jobs.count({ input })).toEqual({ count: 0, exact: true });
      for (const change of [operator.jobs.cancelMany, operator.jobs.promoteMany, admin.jobs.removeMany])
        expect(await ended(operator, await change({ filter: { input } }))).toMatchObject({ changed: 0 });
    }
    expect(await found(operator, { input: { path: "card.number", equals: "[redacted]" } })).toEqual(ids.toReversed());
    expect((await hf.list({ input: { text: "4242-1" } })).jobs).toHaveLength(1);
    const { entries } = await admin.audit.list({ action: "jobs.cancelMany" });
    const asked = entries.map(({ target }) => JSON.parse(target ?? "") as object);
    // The text of a search is recorded as it was sent.
    expect(asked).toContainEqual({ input: { path: "card.number", equals: "[redacted]" } });
    expect(JSON.stringify(entries)).toContain('\\"equals\\":{\\"card\\":{\\"number\\":\\"[redacted]\\"}}');
  });

  it("counts up to a limit", async () => {
    const { hf, as } = await adminScene(store());
    const [client, ada] = [await as("viewer"), await as("user", "ada")];
    await orders(hf, 5);
    await hf.enqueue(mail, { to: "ada" }, { user: "ada", delay: "1h" });
    expect(checked("jobs.count", await client.jobs.count())).toEqual({ count: 6, exact: true });
    expect(await client.jobs.count({ priority: 1 })).toEqual({ count: 2, exact: true });
    expect(await client.jobs.count({ priority: 0, atMost: 2 })).toEqual({ count: 2, exact: false });
    expect(await client.jobs.count({ input: { path: "order.total", equals: 3 } })).toEqual({ count: 1, exact: true });
    expect(await ada.jobs.count()).toEqual({ count: 1, exact: true });
    expect(await errorOf(ada.jobs.count({ user: "bob" }))).toMatchObject({ status: 403 });
  });

  it("accepts 1,000 ids and long values", async () => {
    const { hf, as, send, token } = await adminScene(store(), {}, REDACT);
    const [viewer, ada] = [await as("viewer"), await as("user", "ada")];
    const value = { n: "ü".repeat(4_500) };
    const long = await hf.enqueueNamed("order", value, { delay: "1h" });
    const mine = await hf.enqueueNamed("order", value, { delay: "1h", user: "ada" });
    const missing = (n: number): string => `01a1e0d0-d1c0-79bf-a2c2-${String(n).padStart(12, "0")}`;
    const id = [long.id, mine.id, ...Array.from({ length: 998 }, (_, n) => missing(n))];
    expect(await found(viewer, { id })).toEqual([mine.id, long.id]);
    expect(await found(ada, { id })).toEqual([mine.id]);
    expect(await found(viewer, { input: { equals: value } })).toEqual([mine.id, long.id]);
    expect(await viewer.jobs.count({ id })).toEqual({ count: 2, exact: true });
    expect(await ada.jobs.count({ input: { equals: value } })).toEqual({ count: 1, exact: true });
    expect(await errorOf(ada.jobs.list({ id, user: "bob" }))).toMatchObject({ status: 403 });
    // Only the creation of the two tokens.
    expect((await hf.audit.list({ action: "jobs.search" })).entries).toEqual([]);
    const cookie = { method: "POST", body: "{}", headers: { "content-type": "application/json" } };
    const session = await send("/api/admin/session", {
      ...cookie,
      body: JSON.stringify({ token: await token("viewer") }),
    });
    const headers = { ...cookie.headers, cookie: session.headers.get("set-cookie")?.split(";")[0] ?? "" };
    expect((await send("/api/admin/jobs/search", { ...cookie, headers })).status).toBe(200);
    const foreign = { ...headers, origin: "https://evil.example", "sec-fetch-site": "cross-site" };
    expect((await send("/api/admin/jobs/search", { ...cookie, headers: foreign })).status).toBe(403);
  });

  it("redacts the data of a progress", async () => {
    const paying: JobType = job({
      type: "paying",
      run: ({ progress }) => progress(0.4, { page: 12, card: "4242" }),
    });
    const { hf, as } = await adminScene(store(), {}, { ...REDACT, jobs: [paying] });
    const client = await as("viewer");
    const { id } = await hf.enqueue(paying);
    await hf.drain();
    const shown = { fraction: 0.4, note: null, data: { page: 12, card: "[redacted]" } };
    expect((await client.jobs.get({ id })).progress).toEqual(shown);
    expect((await client.jobs.list()).jobs[0]?.progress).toEqual(shown);
    expect(await client.jobs.get({ id })).toMatchObject({ attempts: [{ attempt: 1, end: "completed", error: null }] });
  });
});
