import { STATE_NAMES, type Job } from "holdfast";
import { describe, expect, it } from "vitest";
import { jobDetail } from "#src/admin/calls/serializers.js";
import { add, claimOne, failureOf, finish, jobIn, key, settleOne } from "#src/testing/exercise-store/builders.js";
import { openClient, openScene, type Scene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

describe("A-01 the view job_records", () => {
  it("A-01 has the same columns for every job type", async () => {
    const { sql, schema } = await openScene(server, { userType: "uuid" });
    const columns = await sql<{ name: string; type: string }>(
      "SELECT column_name AS name, data_type AS type FROM information_schema.columns WHERE table_schema = $1 AND table_name = 'job_records'",
      [schema],
    );
    const time = "timestamp with time zone";
    expect(Object.fromEntries(columns.map(({ name, type }) => [name, type]))).toMatchObject({
      id: "uuid",
      user_id: "uuid",
      type: "text",
      status: "text",
      input: "json",
      output: "json",
      error: "text",
      priority: "integer",
      retry_count: "integer",
      max_retries: "integer",
      scheduled_for: time,
      expires_at: time,
      claimed_at: time,
      started_at: time,
      completed_at: time,
      created_at: time,
      updated_at: time,
    });
  });

  it("A-01 shows a job from enqueue to completion", async () => {
    const { sql, store } = await openScene(server);
    const large = JSON.stringify("x".repeat(600));
    const id = await add(store, { user: "ada", input: large, expiresAt: 4_102_444_800_000 });
    const row = async (): Promise<object | undefined> =>
      (await sql("SELECT * FROM $s.job_records WHERE id = $1", [id]))[0];
    expect(await row()).toMatchObject({
      user_id: "ada",
      type: "mail",
      status: "pending",
      input: "x".repeat(600),
      output: null,
      error: null,
      priority: 0,
      retry_count: 0,
      max_retries: 3,
      expires_at: new Date("2100-01-01T00:00:00Z"),
      claimed_at: null,
      completed_at: null,
    });
    await settleOne(store, failureOf(await claimOne(store), "broke"));
    expect(await row()).toMatchObject({ status: "failed", error: "broke", retry_count: 0 });
    const lease = await claimOne(store);
    expect(await row()).toMatchObject({ status: "claimed", retry_count: 1, claimed_at: expect.any(Date) });
    await finish(store, lease, "completed", { output: '{"sent":true}', startedAt: Date.now() });
    expect(await row()).toMatchObject({
      status: "completed",
      output: { sent: true },
      retry_count: 1,
      started_at: expect.any(Date),
      completed_at: expect.any(Date),
    });
  });

  it("A-01 shows every state, and the tables accept no other", async () => {
    const { sql, store } = await openScene(server);
    for (const state of STATE_NAMES) await jobIn(store, state);
    const shown = await sql<{ status: string }>("SELECT status FROM $s.job_records");
    expect(new Set(shown.map(({ status }) => status))).toEqual(new Set(STATE_NAMES));
    for (const table of ["live", "archive"]) {
      for (const state of ["queued", "", table === "live" ? "completed" : "pending"]) {
        await expect(sql(`UPDATE $s.${table} SET state = $1`, [state])).rejects.toMatchObject({ code: "23514" });
      }
    }
  });
});

const PARENT = "018f4d2e-7b3a-7c11-8a55-00000000000a";

describe("the view jobs", () => {
  it("has the names and values of the API's fields", async () => {
    const scene = await openScene(server);
    const { store, sql } = scene;
    const id = await fullJob(scene);
    const hf = await openClient(scene.address);
    const compare = async (): Promise<void> => {
      const job = (await hf.get(id)) as Job;
      expect(job).toMatchObject({ error: { code: "E_TEST" }, schedule: { name: "daily" }, progress: { note: "half" } });
      expect(await sql("SELECT * FROM $s.jobs")).toEqual([
        { ...columnsOf(job), parent: PARENT, progress_data: { page: 2 } },
      ]);
      const fields = Object.keys(jobDetail(job, (payloads) => payloads));
      expect(Object.keys(job).filter((field) => !fields.includes(field))).toEqual([]);
    };
    await compare();
    await finish(store, await claimOne(store, { worker: "w2" }), "completed", { startedAt: 5 });
    await compare();
  });

  it("shows the columns of an empty job as the API does", async () => {
    const scene = await openScene(server);
    const id = await add(scene.store);
    const job = (await (await openClient(scene.address)).get(id)) as Job;
    expect((await scene.sql("SELECT * FROM $s.jobs"))[0]).toMatchObject({
      key: null,
      tags: [],
      user_id: null,
      schedule: null,
      schedule_slot: null,
      parent: null,
      run_at: job.runAt,
      due_at: job.dueAt,
    });
  });
});

/** A job that failed once and has a value in every field that a live job can have. */
async function fullJob({ store, sql }: Scene): Promise<string> {
  const id = await add(store, {
    user: "ada",
    input: JSON.stringify({ text: "x".repeat(600) }),
    expiresAt: 4_102_444_800_000,
    tags: ["a", "b"],
    unique: key("ada\u001freport\u001e2026-05", { scope: "forever" }),
    schedule: { name: "daily", slot: 1_000_000 },
    parent: PARENT,
    trace: '{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}',
  });
  const lease = await claimOne(store);
  await store.note([
    { id, fence: lease.fence, progress: { fraction: 0.5, note: "half", data: '{"page":2}' }, log: [] },
  ]);
  await settleOne(store, failureOf(lease, "broke", { startedAt: 6_000 }));
  await sql("UPDATE $s.live SET cancel_at = 8000");
  return id;
}

/** The fields of a job as columns: snake case, and the members of an object after their field's name. */
function columnsOf({ attempts: _attempts, log: _log, user, ...fields }: Job): object {
  const columns: Record<string, unknown> = { user_id: user };
  for (const [field, value] of Object.entries(fields)) {
    const name = field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    if (field === "trace") columns[name] = JSON.stringify(value);
    else if (!["error", "schedule", "progress"].includes(field)) columns[name] = value;
    else {
      const [[, first] = [], ...others] = Object.entries(value as object);
      columns[name] = first;
      for (const [member, part] of others) columns[`${name}_${member}`] = part;
    }
  }
  return columns;
}
