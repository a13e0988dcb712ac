import { holdfast, job } from "holdfast";
import { postgres, type LegacyProgress } from "holdfast/postgres";
import { describe, expect, it } from "vitest";
import { claim, recordOf } from "#src/testing/exercise-store/builders.js";
import { CONNECTION, everything, IDS, scene, seedImport, seedTables, USER, type Scene } from "./legacy-scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const at = (text: string): number => Date.parse(text);

async function seeded(): Promise<Scene> {
  const made = await scene(server);
  await seedTables(made);
  return made;
}

const tablesOf = async ({ old, query }: Scene): Promise<unknown[]> =>
  (await query("SELECT tablename AS name FROM pg_tables WHERE schemaname = $1 ORDER BY 1", [old])).map(
    ({ name }) => name,
  );

describe("A-05: the rows of the seed's email_processing_jobs", () => {
  it("become jobs of one type with ids, times and errors", async () => {
    const here = await seeded();
    const result = await here.store.importLegacy(seedImport(here));
    expect(result).toMatchObject({ imported: 4, skipped: 0, dropped: [], dryRun: false });
    expect(result.byState).toEqual({
      pending: 1,
      claimed: 0,
      running: 1,
      failed: 0,
      completed: 1,
      dead: 1,
      cancelled: 0,
    });

    const shared = { type: "email_processing", queue: "default", priority: 0, user: USER, maxAttempts: 4 };
    const [pending, processing, complete, failed] = await Promise.all(
      Object.values(IDS).map((id) => recordOf(here.store, id)),
    );
    for (const each of [pending, processing, complete, failed]) {
      expect(each).toMatchObject(shared);
      expect(JSON.parse(each?.input ?? "")).toEqual({ connection_id: CONNECTION });
    }
    expect(pending).toMatchObject({
      state: "pending",
      attempt: 0,
      createdAt: at("2026-02-20T10:00:00Z"),
      dueAt: at("2026-02-20T10:00:00Z"),
      error: null,
    });
    expect(processing).toMatchObject({
      state: "running",
      attempt: 1,
      createdAt: at("2026-02-20T11:00:00Z"),
      startedAt: at("2026-02-20T11:00:05Z"),
    });
    expect(complete).toMatchObject({
      state: "completed",
      createdAt: at("2026-02-20T08:00:00Z"),
      startedAt: at("2026-02-20T08:00:01Z"),
      finishedAt: at("2026-02-20T08:05:00.250Z"),
      updatedAt: at("2026-02-20T08:05:01Z"),
    });
    expect(JSON.parse(complete?.output ?? "")).toEqual({ emails: 12 });
    expect(failed).toMatchObject({
      state: "dead",
      error: { message: "Gmail said 403", code: null, at: at("2026-02-20T09:00:02Z") },
      finishedAt: at("2026-02-20T09:00:02Z"),
    });
  });

  it("A-05 A-04 match the seed's own SQL, and both tables are dropped", async () => {
    const here = await seeded();
    const rows = await here.query(`SELECT id::text, jsonb_build_object('connection_id', connection_id::text)
      || COALESCE(result_summary, '{}'::jsonb) AS input FROM ${here.old}.email_processing_jobs`);
    const { map } = seedImport(here);
    const drop = [`${here.old}.email_digest_batches`, `${here.old}.email_processing_jobs`];
    await here.store.importLegacy(seedImport(here, { map: { ...map, inputMerge: "result_summary" }, drop }));
    expect(rows.map(({ input }) => input)).toContainEqual({ connection_id: CONNECTION, emails: 12 });
    for (const { id, input } of rows) {
      expect(JSON.parse((await recordOf(here.store, id as string)).input)).toEqual(input);
    }
    expect(await tablesOf(here)).toEqual([]);
  });

  it("are counted, and listed oldest first", async () => {
    const here = await seeded();
    await here.store.importLegacy(seedImport(here));
    const { counts, lastMinute } = await here.store.stats();
    expect(counts.map(({ state, count }) => [state, count])).toEqual([
      ["completed", 1],
      ["dead", 1],
      ["pending", 1],
      ["running", 1],
    ]);
    // They finished long ago.
    expect(lastMinute).toEqual({ completed: 0, dead: 0, cancelled: 0 });
    const { jobs } = await here.store.list({ types: ["email_processing"] }, { limit: 10, cursor: null });
    expect(jobs.map(({ id }) => id).toReversed()).toEqual([IDS.complete, IDS.failed, IDS.pending, IDS.processing]);
  });

  it("are run by a worker; processing rows count as lost leases", async () => {
    const here = await seeded();
    const ran: unknown[] = [];
    const type = job({ type: "email_processing", run: ({ input }) => void ran.push(input) });
    await here.store.importLegacy(seedImport(here));
    const hf = await holdfast({ store: here.address, jobs: [type], logger: false });
    const worker = hf.work();
    await hf.result(IDS.pending, { timeout: "10s" });
    await hf.result(IDS.processing, { timeout: "10s" });
    await worker.stop();
    await hf.close();
    expect(ran).toEqual([{ connection_id: CONNECTION }, { connection_id: CONNECTION }]);
    const recovered = await recordOf(here.store, IDS.processing);
    expect(recovered).toMatchObject({ state: "completed", attempt: 2, losses: 1 });
    expect(recovered.attempts).toMatchObject([{ attempt: 1, error: { message: "Job timed out (stale claim)" } }]);
  });

  it("wake the workers of other processes", async () => {
    const here = await seeded();
    const other = postgres(here.address);
    const woken = new Promise<void>((resolve) => {
      other.listen((hint) => hint.kind === "work" && resolve());
    });
    // The listener emits a work hint when it starts; the import comes after that.
    await woken;
    const again = new Promise<void>((resolve) => {
      other.listen((hint) => hint.kind === "work" && resolve());
    });
    await here.store.importLegacy(seedImport(here));
    await again;
    await other.close();
  });
});

describe("A-04, A-05: old tables", () => {
  it("are dropped with the import", async () => {
    const here = await seeded();
    const drop = [`${here.old}.email_processing_jobs`, `${here.old}.email_digest_batches`];
    const { dropped } = await here.store.importLegacy(seedImport(here, { drop }));
    expect(dropped).toEqual(drop);
    expect(await tablesOf(here)).toEqual([]);
    expect(await recordOf(here.store, IDS.pending)).toMatchObject({ state: "pending" });
  });

  it("are dropped only if named", async () => {
    const here = await seeded();
    await here.store.importLegacy(seedImport(here, { drop: true }));
    expect(await tablesOf(here)).toEqual(["email_digest_batches"]);
  });

  it.each([
    ["a foreign key refers to", "CREATE TABLE OLD.mails (job UUID REFERENCES OLD.email_processing_jobs)", /mails/],
    ["a view reads from", "CREATE VIEW OLD.open_jobs AS SELECT * FROM OLD.email_processing_jobs", /view .*open_jobs/],
  ])("that %s are not dropped, and nothing is imported", async (_case, also, reason) => {
    const here = await seeded();
    await here.query(also.replaceAll("OLD", here.old));
    const before = await everything(here);
    await expect(here.store.importLegacy(seedImport(here, { drop: true }))).rejects.toMatchObject({
      code: "INVALID_OPTION",
      field: "drop",
      message: expect.stringMatching(reason),
    });
    expect(await everything(here)).toEqual(before);
  });

  it("are dropped together with tables that refer to them", async () => {
    const here = await seeded();
    await here.query(`CREATE TABLE ${here.old}.mails (job UUID REFERENCES ${here.old}.email_processing_jobs)`);
    const drop = [`${here.old}.email_processing_jobs`, `${here.old}.mails`];
    await here.store.importLegacy(seedImport(here, { drop }));
    expect(await tablesOf(here)).toEqual(["email_digest_batches"]);
  });
});

describe("A-05: all or nothing", () => {
  const many = 12_000;
  async function filled(): Promise<Scene> {
    const here = await seeded();
    await here.query(`INSERT INTO ${here.old}.email_processing_jobs (user_id, connection_id, status)
      SELECT gen_random_uuid(), gen_random_uuid(), (ARRAY['pending', 'processing', 'complete', 'failed'])[1 + n % 4]
      FROM generate_series(1, ${many}) n`);
    return here;
  }

  it("a failure changes nothing", async () => {
    const here = await filled();
    await here.query(`CREATE FUNCTION ${here.schema}.fail() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE 'the disk is on fire'; END $$;
      CREATE TRIGGER fail AFTER INSERT ON ${here.schema}.archive FOR EACH ROW
      WHEN (NEW.id = '${IDS.complete}') EXECUTE FUNCTION ${here.schema}.fail()`);
    // This row is listed first and imported last.
    await here.query(
      `UPDATE ${here.old}.email_processing_jobs SET created_at = now() + interval '1 day' WHERE id = $1`,
      [IDS.complete],
    );
    const before = await everything(here);
    const seen: LegacyProgress[] = [];
    const failed = here.store.importLegacy(
      seedImport(here, { drop: true, onProgress: (progress) => void seen.push(progress) }),
    );
    await expect(failed).rejects.toThrow(/the disk is on fire/);
    expect(seen).toEqual([
      { done: 0, total: many + 4 },
      { done: 10_000, total: many + 4 },
    ]);
    expect(await everything(here)).toEqual(before);
  });

  it.each<[string, (error: Error) => unknown]>([
    [
      "throws",
      (error) => {
        throw error;
      },
    ],
    ["rejects with", (error) => Promise.reject(error)],
  ])("an error that onProgress %s ends it", async (_, fail) => {
    const here = await seeded();
    const before = await everything(here);
    const enough = new RangeError("enough");
    const onProgress = (): unknown => fail(enough);
    await expect(here.store.importLegacy(seedImport(here, { drop: true, onProgress }))).rejects.toBe(enough);
    expect(await everything(here)).toEqual(before);
  });

  it("two concurrent imports import each row once", async () => {
    const here = await filled();
    const other = postgres(here.address);
    const [one, two] = await Promise.all([
      here.store.importLegacy(seedImport(here)),
      other.importLegacy(seedImport(here)),
    ]);
    expect([one.imported, two.imported].toSorted((a, b) => a - b)).toEqual([0, many + 4]);
    expect([one.skipped, two.skipped].toSorted((a, b) => a - b)).toEqual([0, many + 4]);
    const { counts } = await here.store.stats();
    expect(counts.reduce((sum, { count }) => sum + count, 0)).toBe(many + 4);
    expect(await here.query(`SELECT count(*)::int AS n FROM ${here.schema}.jobs`)).toEqual([{ n: many + 4 }]);
    await other.close();
  });

  it("of two imports that drop the table, the second fails", async () => {
    const here = await seeded();
    const other = postgres(here.address);
    const both = await Promise.allSettled([
      here.store.importLegacy(seedImport(here, { drop: true })),
      other.importLegacy(seedImport(here, { drop: true })),
    ]);
    expect(both.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    expect(both.find(({ status }) => status === "rejected")).toMatchObject({
      reason: { field: "table", message: expect.stringMatching(/table .* does not exist/) },
    });
    await other.close();
  });

  it("a row of an open transaction is imported", async () => {
    const here = await seeded();
    const writer = await server.client();
    await writer.query("BEGIN");
    await writer.query(`INSERT INTO ${here.old}.email_processing_jobs (user_id, connection_id) VALUES ($1, $2)`, [
      USER,
      CONNECTION,
    ]);
    const importing = here.store.importLegacy(seedImport(here));
    const waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = $1::regclass";
    while ((await writer.query(waiting, [`${here.old}.email_processing_jobs`])).rows.length === 0);
    await writer.query("COMMIT");
    await writer.end();
    expect(await importing).toMatchObject({ imported: 5 });
  });
});

describe("a dry run", () => {
  it("returns the result and changes nothing", async () => {
    const here = await seeded();
    const before = await everything(here);
    const drop = [`${here.old}.email_processing_jobs`, `${here.old}.email_digest_batches`];
    const dry = await here.store.importLegacy(seedImport(here, { drop, dryRun: true }));
    expect(await everything(here)).toEqual(before);
    expect(dry).toMatchObject({ imported: 4, dropped: drop, dryRun: true });
    expect(new Set(dry.samples.map(({ state }) => state))).toEqual(
      new Set(["pending", "running", "completed", "dead"]),
    );

    const done = await here.store.importLegacy(seedImport(here, { drop }));
    const withoutDue = dry.samples.map((sample) => ({ ...sample, dueAt: null }));
    expect(done).toMatchObject({ ...dry, dryRun: false, samples: withoutDue.map(() => expect.anything()) });
    expect(done.samples.map((sample) => ({ ...sample, dueAt: null }))).toEqual(withoutDue);
  });

  it("fails as the import would", async () => {
    const here = await seeded();
    await here.query(`CREATE TABLE ${here.old}.mails (job UUID REFERENCES ${here.old}.email_processing_jobs)`);
    await expect(here.store.importLegacy(seedImport(here, { drop: true, dryRun: true }))).rejects.toMatchObject({
      field: "drop",
    });
  });
});

describe("imported again", () => {
  it("existing rows are skipped, new ones imported", async () => {
    const here = await seeded();
    await here.store.importLegacy(seedImport(here));
    await claim(here.store);
    await here.query(`INSERT INTO ${here.old}.email_processing_jobs (user_id, connection_id) VALUES ($1, $2)`, [
      USER,
      CONNECTION,
    ]);
    expect(await here.store.importLegacy(seedImport(here, { drop: true }))).toMatchObject({
      imported: 1,
      skipped: 4,
      byState: { pending: 1 },
    });
    const { counts } = await here.store.stats();
    expect(counts.reduce((sum, { count }) => sum + count, 0)).toBe(5);
  });
});
