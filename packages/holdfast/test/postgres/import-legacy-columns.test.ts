import { postgres, type LegacyImport, type LegacyImportOptions, type LegacyMap } from "holdfast/postgres";
import type { StoredJob } from "holdfast/store";
import { describe, expect, it } from "vitest";
import { add, claim, recordOf } from "#src/testing/exercise-store/builders.js";
import { everything, IDS, scene, seedImport, seedTables, type Scene } from "./legacy-scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const ID = "7b0e5cb4-0c3e-4c1e-9d7a-0000000000ff";

/** One old row with these columns, as SQL; id and status have defaults. */
async function oldRow(columns: Record<string, string>): Promise<Scene> {
  const here = await scene(server);
  const all = { id: `'${ID}'::uuid`, status: "'pending'::text", ...columns };
  const parts = Object.entries(all).map(([name, value]) => `${value} AS "${name}"`);
  await here.query(`CREATE TABLE ${here.old}.jobs AS SELECT ${parts.join(", ")}`);
  return here;
}

function importOf(
  here: Scene,
  map: Partial<LegacyMap>,
  more: Partial<LegacyImportOptions> = {},
): Promise<LegacyImport> {
  return here.store.importLegacy({
    table: `${here.old}.jobs`,
    type: "old",
    map: { id: "id", status: "status", ...map },
    ...more,
  });
}

async function imported(columns: Record<string, string>, map: Partial<LegacyMap> = {}): Promise<StoredJob> {
  const { samples } = await importOf(await oldRow(columns), map);
  return samples[0] as StoredJob;
}

describe("A-05: a status", () => {
  it("of any of the five seeds is recognised", async () => {
    const meanings = {
      pending: ["pending", "queued", " Queued "],
      claimed: ["claimed"],
      running: ["running", "processing", "in_progress"],
      failed: [],
      completed: ["complete", "completed"],
      dead: ["failed", "dead_letter", "dead"],
      cancelled: ["canceled", "cancelled"],
    };
    const here = await scene(server);
    await here.query(`CREATE TABLE ${here.old}.jobs (id serial, status text)`);
    const words = Object.values(meanings).flat();
    await here.query(`INSERT INTO ${here.old}.jobs (status) SELECT unnest($1::text[])`, [words]);
    const { byState } = await importOf(here, {});
    expect(byState).toEqual(Object.fromEntries(Object.entries(meanings).map(([state, all]) => [state, all.length])));
  });

  it("can be mapped by the caller", async () => {
    const here = await oldRow({ status: "7" });
    const { byState } = await importOf(here, {}, { statuses: { "7": "cancelled" } });
    expect(byState).toMatchObject({ cancelled: 1 });
  });

  it("failed can mean a wait for the retry", async () => {
    const here = await oldRow({ status: "'failed'::text", next: "'2099-01-01T00:00:00Z'::timestamptz" });
    const { samples } = await importOf(here, { runAt: "next" }, { statuses: { failed: "failed" } });
    expect(samples).toMatchObject([{ state: "failed", attempt: 1, dueAt: Date.parse("2099-01-01T00:00:00Z") }]);
    expect(await claim(here.store)).toEqual([]);
  });

  it("can be an enum", async () => {
    const here = await scene(server);
    await here.query(`CREATE TYPE ${here.old}.mood AS ENUM ('queued', 'done');
      CREATE TABLE ${here.old}.jobs AS SELECT '${ID}'::uuid AS id, 'done'::${here.old}.mood AS status`);
    expect(await importOf(here, {})).toMatchObject({ byState: { completed: 1 } });
  });
});

describe("an id that is not a UUID", () => {
  it("becomes a stable UUID, and a tag", async () => {
    const here = await oldRow({ id: "42" });
    const { samples } = await importOf(here, {}, { tags: ["from the old days"] });
    expect(samples).toMatchObject([{ tags: ["from the old days", "legacy:42"] }]);
    const { jobs } = await here.store.list({ tag: "legacy:42" }, { limit: 10, cursor: null });
    expect(jobs.map(({ id }) => id)).toEqual(samples.map(({ id }) => id));
    expect(await importOf(here, {})).toMatchObject({ imported: 0, skipped: 1 });
  });

  it("becomes another UUID in another table", async () => {
    const here = await oldRow({ id: "42" });
    await here.query(`CREATE TABLE ${here.old}.others AS SELECT * FROM ${here.old}.jobs`);
    await importOf(here, {});
    expect(await importOf(here, {}, { table: `${here.old}.others` })).toMatchObject({ imported: 1 });
  });

  it("is kept if a string is a UUID", async () => {
    expect(await imported({ id: `'${ID.toUpperCase()}'::text` })).toMatchObject({ id: ID, tags: [] });
  });
});

describe("A-05: a time", () => {
  const noon = Date.parse("2026-03-01T12:00:00Z");
  it.each([
    ["a timestamp with a zone", "'2026-03-01T14:00:00+02'::timestamptz", noon],
    ["a timestamp without one, as UTC", "'2026-03-01T12:00:00'::timestamp", noon],
    ["a date", "'2026-03-01'::date", Date.parse("2026-03-01T00:00:00Z")],
    ["a string", "'2026-03-01T12:00:00Z'::text", noon],
    ["seconds", `${noon / 1000}::int`, noon],
    ["milliseconds", `${noon}::bigint`, noon],
    ["seconds with a fraction", `${noon / 1000}.25::numeric`, noon + 250],
  ])("can be %s", async (_what, value, createdAt) => {
    expect(await imported({ made: value }, { createdAt: "made" })).toMatchObject({ createdAt, dueAt: createdAt });
  });

  it("that is missing is derived from the others", async () => {
    const columns = { status: "'done'::text", began: "'2026-03-01T12:00:00Z'::timestamptz" };
    expect(await imported(columns, { startedAt: "began" })).toMatchObject({
      createdAt: noon,
      startedAt: noon,
      updatedAt: noon,
      finishedAt: noon,
    });
  });
});

describe("attempts", () => {
  it.each<[string, Record<string, string>, Partial<LegacyMap>, { attempt: number; maxAttempts: number }]>([
    ["retries of a waiting job", { r: "2", m: "3" }, { retries: "r", maxRetries: "m" }, { attempt: 2, maxAttempts: 4 }],
    [
      "retries of a finished job, whose first attempt is none",
      { status: "'failed'::text", r: "3", m: "3" },
      { retries: "r", maxRetries: "m" },
      { attempt: 4, maxAttempts: 4 },
    ],
    ["attempts as they are", { a: "1", m: "3" }, { attempt: "a", maxAttempts: "m" }, { attempt: 1, maxAttempts: 3 }],
    ["a running job has one", { status: "'running'::text" }, {}, { attempt: 1, maxAttempts: 4 }],
    ["more than the default leave one more", { a: "9" }, { attempt: "a" }, { attempt: 9, maxAttempts: 10 }],
  ])("%s", async (_what, columns, map, counts) => {
    expect(await imported(columns, map)).toMatchObject(counts);
  });
});

describe("A-05: the input", () => {
  it("is a JSON column, or built from columns", async () => {
    expect((await imported({ p: `'{"a": [1]}'::jsonb` }, { input: "p" })).input).toBe(`{"a": [1]}`);
    expect((await imported({ p: `'{"a": 1}'::text` }, { input: "p" })).input).toBe(`{"a": 1}`);
    const made = await imported(
      { to: "'a@b.c'::text", n: "3", p: `'{"a":1}'::json` },
      { input: { mail: "to", n: "n", p: "p" } },
    );
    expect(JSON.parse(made.input)).toEqual({ mail: "a@b.c", n: 3, p: { a: 1 } });
    expect((await imported({})).input).toBe("{}");
  });

  it("A-05 gets the fields of a JSON column merged into it", async () => {
    const merged = async (over: string, more: Partial<LegacyMap> = { input: { a: "x", b: "x" } }): Promise<unknown> =>
      JSON.parse((await imported({ x: "1", p: over }, { inputMerge: "p", ...more })).input);
    expect(await merged(`'{"b": [2], "c": {"d": null}}'::jsonb`)).toEqual({ a: 1, b: [2], c: { d: null } });
    expect(await merged(`'{"c": 3}'::text`)).toEqual({ a: 1, b: 1, c: 3 });
    expect(await merged(`'{"c": 3}'::json`, {})).toEqual({ c: 3 });
    for (const nothing of ["NULL::jsonb", "'null'::jsonb", "'{}'::json", "''::text"]) {
      expect(await merged(nothing)).toEqual({ a: 1, b: 1 });
    }
    expect((await imported({ x: "1", p: "NULL::json" }, { inputMerge: "p" })).input).toBe("{}");
  });

  it("can be large", async () => {
    const here = await oldRow({ body: "repeat('x', 5000)" });
    await importOf(here, { input: ["body"] });
    const [job] = await claim(here.store);
    expect(JSON.parse(job?.input ?? "")).toEqual({ body: "x".repeat(5_000) });
  });
});

describe("queue and priority", () => {
  it("come from columns, or from the options", async () => {
    const here = await oldRow({ q: "NULL::text", p: "7" });
    const { samples } = await importOf(here, { queue: "q", priority: "p" }, { queue: "mail", priority: 1 });
    expect(samples).toMatchObject([{ queue: "mail", priority: 7 }]);
    expect(await claim(here.store, { queues: ["mail"] })).toHaveLength(1);
  });

  it("a paused queue stays paused", async () => {
    const here = await oldRow({});
    await here.store.pause("mail");
    await importOf(here, {}, { queue: "mail", priority: 9 });
    expect(await claim(here.store)).toEqual([]);
  });
});

describe("an invalid import is rejected and changes nothing", () => {
  it.each<[string, string, RegExp, Record<string, string>, Partial<LegacyMap>, Partial<LegacyImportOptions>]>([
    ["a missing table", "table", /does not exist/, {}, {}, { table: "nowhere.jobs" }],
    ["a table with SQL in its name", "table", /does not exist/, {}, {}, { table: `jobs"; DROP TABLE x; --` }],
    ["a missing table to drop", "drop.0", /does not exist/, {}, {}, { drop: ["nowhere.orphans"] }],
    ["a missing column", "map.user", /no column "usr"; it has "id", "status"/, {}, { user: "usr" }, {}],
    ["a column with SQL in its name", "map.error", /no column/, {}, { error: "1); DROP TABLE x; --" }, {}],
    ["a missing column of the input", "map.input.to", /no column/, {}, { input: ["to"] }, {}],
    ["an unknown status", "statuses", /"odd" \(1 rows\)/, { status: "'odd'::text" }, {}, {}],
    ["no status", "statuses", /null/, { status: "NULL::text" }, {}, {}],
    ["no id", "map.id", /no id/, { id: "NULL::uuid" }, {}, {}],
    ["a column without times", "map.createdAt", /boolean|bool/, { x: "true" }, { createdAt: "x" }, {}],
    [
      "a string that is not a time",
      "map.createdAt",
      /not a time.*"soon"/,
      { x: "'soon'::text" },
      { createdAt: "x" },
      {},
    ],
    ["a string that is not JSON", "map.output", /not JSON/, { x: "'fine'::text" }, { output: "x" }, {}],
    ["an array to merge", "map.inputMerge", /not a JSON object/, { x: "'[1]'::jsonb" }, { inputMerge: "x" }, {}],
    ["a string to merge", "map.inputMerge", /not a JSON object/, { x: "'fine'::text" }, { inputMerge: "x" }, {}],
    ["a number to merge", "map.inputMerge", /int4.*not a JSON object/, { x: "1" }, { inputMerge: "x" }, {}],
    [
      "an array to merge into",
      "map.input",
      /not JSON/,
      { x: "'[1]'::jsonb", y: `'{"a": 1}'::jsonb` },
      { input: "x", inputMerge: "y" },
      {},
    ],
    ["a priority out of range", "map.priority", /500/, { x: "500" }, { priority: "x" }, {}],
    ["an input that is too large", "map.input", /limit/, { x: "repeat('x', 300000)" }, { input: ["x"] }, {}],
    ["an unknown state", "statuses.odd", /not a state/, {}, {}, { statuses: { odd: "lost" as never } }],
    ["attempts and retries", "map.retries", /combined/, { x: "1" }, { attempt: "x", retries: "x" }, {}],
    ["an unknown option", "remove", /not an option/, {}, {}, { remove: true } as never],
  ])("%s", async (_what, field, message, columns, map, more) => {
    const here = await oldRow(columns);
    const before = await everything(here);
    await expect(importOf(here, map, more)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      field,
      message: expect.stringMatching(message),
    });
    expect(await everything(here)).toEqual(before);
  });

  it("a user of another type", async () => {
    const here = await oldRow({ owner: "'someone'::text" });
    const store = postgres(here.address, { userType: "uuid" });
    const options = { table: `${here.old}.jobs`, type: "old", map: { id: "id", status: "status", user: "owner" } };
    await expect(store.importLegacy(options)).rejects.toMatchObject({
      field: "map.user",
      message: expect.stringMatching(/not a uuid.*"someone"/),
    });
    await store.close();
  });

  it("a duplicate id", async () => {
    const here = await oldRow({});
    await here.query(`INSERT INTO ${here.old}.jobs SELECT * FROM ${here.old}.jobs`);
    await expect(importOf(here, {})).rejects.toMatchObject({ field: "map.id", message: expect.stringMatching(/once/) });
  });

  it("an id of another job", async () => {
    const here = await oldRow({});
    await add(here.store, { id: ID, type: "mail" });
    await expect(importOf(here, {}, { drop: true })).rejects.toMatchObject({
      field: "map.id",
      message: expect.stringMatching(/"mail"/),
    });
    expect(await recordOf(here.store, ID)).toMatchObject({ type: "mail" });
  });

  it("one of Holdfast's own tables", async () => {
    const here = await oldRow({});
    await expect(importOf(here, {}, { table: `${here.schema}.live` })).rejects.toMatchObject({ field: "table" });
    await expect(importOf(here, {}, { drop: [`${here.schema}.live`] })).rejects.toMatchObject({ field: "drop.0" });
  });

  it("rows that row-level security hides", async () => {
    const here = await scene(server);
    await seedTables(here);
    const role = `owner_${here.schema}`;
    await here.query(`CREATE ROLE ${role} LOGIN PASSWORD 'p' IN ROLE pg_read_all_data, pg_write_all_data;
      GRANT USAGE ON SCHEMA ${here.schema}, ${here.old} TO ${role};
      GRANT ALL ON ALL SEQUENCES IN SCHEMA ${here.schema} TO ${role};
      ALTER TABLE ${here.old}.email_processing_jobs OWNER TO ${role};
      ALTER TABLE ${here.old}.email_processing_jobs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY`);
    const url = new URL(here.address);
    url.username = role;
    url.password = "p";
    const store = postgres(url.href);
    await expect(store.importLegacy(seedImport(here, { drop: true }))).rejects.toMatchObject({
      code: "STORE_UNREADABLE",
      message: expect.stringMatching(/row-level security/),
    });
    await store.close();
    expect(
      await here.query(`SELECT id FROM ${here.old}.email_processing_jobs WHERE id = $1`, [IDS.failed]),
    ).toHaveLength(1);
    await here.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
  });
});
