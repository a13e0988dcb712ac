import { STATE_NAMES } from "holdfast";
import { describe, expect, it } from "vitest";
import { add, claimOne, failureOf, finish, jobIn, settleOne } from "#src/testing/exercise-store/builders.js";
import { openScene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

describe("A-01 the view jobs", () => {
  it("A-01 has one shape for every job", async () => {
    const { sql, schema } = await openScene(server, { userType: "uuid" });
    const columns = await sql<{ name: string; type: string }>(
      "SELECT column_name AS name, data_type AS type FROM information_schema.columns WHERE table_schema = $1 AND table_name = 'jobs'",
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

  it("A-01 shows a job through its life, with its defaults", async () => {
    const { sql, store } = await openScene(server);
    const large = JSON.stringify("x".repeat(600));
    const id = await add(store, { user: "ada", input: large, expiresAt: 4_102_444_800_000 });
    const row = async (): Promise<object | undefined> => (await sql("SELECT * FROM $s.jobs WHERE id = $1", [id]))[0];
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

  it("A-01 shows every state there is, and the tables take no other", async () => {
    const { sql, store } = await openScene(server);
    for (const state of STATE_NAMES) await jobIn(store, state);
    const shown = await sql<{ status: string }>("SELECT status FROM $s.jobs");
    expect(new Set(shown.map(({ status }) => status))).toEqual(new Set(STATE_NAMES));
    for (const table of ["live", "archive"]) {
      for (const state of ["queued", "", table === "live" ? "completed" : "pending"]) {
        await expect(sql(`UPDATE $s.${table} SET state = $1`, [state])).rejects.toMatchObject({ code: "23514" });
      }
    }
  });
});
