import { STATE_NAMES, type Job, type State } from "holdfast";
import { describe, expect, it } from "vitest";
import { double, jobOf, open, START } from "./scene.js";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const DATE = expect.any(Date);
const FIELDS = (
  "id user type state input output error priority attempt maxAttempts runAt expiresAt claimedAt startedAt finishedAt " +
  "createdAt updatedAt queue fence dueAt cancelRequestedAt worker key tags schedule trace parent timeoutMs progress attempts log"
)
  .split(" ")
  .toSorted();

/** Every field of a record with its type, and the fields that each stage must or must not have. */
function expectRecord(record: Job, state: State, stage: Partial<Record<keyof Job, unknown>>): void {
  expect(Object.keys(record).toSorted()).toEqual(FIELDS);
  expect(record).toMatchObject({
    id: expect.stringMatching(UUID),
    user: "ada",
    type: "double",
    state,
    input: { n: 4 },
    priority: 0,
    maxAttempts: 4,
    runAt: new Date(START),
    expiresAt: new Date(START + 3_600_000),
    createdAt: new Date(START),
    updatedAt: DATE,
    queue: "default",
    cancelRequestedAt: null,
    key: "k",
    tags: ["t"],
    progress: null,
    log: [],
    ...stage,
  });
  for (const value of Object.values(record)) if (value instanceof Date) expect(value.getTime()).not.toBeNaN();
}

const nothing = { output: null, error: null, claimedAt: null, startedAt: null, finishedAt: null, worker: null };

describe("A-01 one record shape for every job, complete after each stage", () => {
  it("through failure, retry and completion", async () => {
    const { hf, clock } = await open();
    const seen = new Set<State>();
    const options = { user: "ada", unique: "k", tags: ["t"], expiresAt: START + 3_600_000 };
    const { id } = await hf.enqueue(double, { n: 4 }, options);
    const look = async (state: State, stage: Partial<Record<keyof Job, unknown>>): Promise<void> => {
      expectRecord(await jobOf(hf, id), state, stage);
      seen.add(state);
    };
    await look("pending", { ...nothing, attempt: 0, fence: 0, dueAt: new Date(START), attempts: [] });

    await clock.advance(1_000);
    let [lease] = await hf.claim();
    const claimedAt = new Date(START + 1_000);
    const worker = expect.any(String);
    await look("claimed", { ...nothing, attempt: 1, fence: 1, claimedAt, worker, dueAt: new Date(START + 31_000) });

    await clock.advance(1_000);
    await lease?.start();
    await look("running", { ...nothing, attempt: 1, fence: 1, claimedAt, worker, startedAt: new Date(START + 2_000) });

    await clock.advance(1_000);
    await lease?.fail(Object.assign(new Error("busy"), { code: "EBUSY" }));
    const failedAt = new Date(START + 3_000);
    const retryAt = new Date(START + 33_000);
    const error = { message: "busy", code: "EBUSY", at: failedAt };
    const stack = expect.stringContaining("Error: busy");
    const attempts = [
      {
        attempt: 1,
        worker,
        claimedAt,
        startedAt: new Date(START + 2_000),
        endedAt: failedAt,
        error: { message: "busy", code: "EBUSY", stack },
      },
    ];
    await look("failed", { error, attempts, attempt: 1, runAt: retryAt, dueAt: retryAt, output: null, worker: null });

    await clock.advance(30_000);
    [lease] = await hf.claim();
    await lease?.fail("no", { retry: false });
    await look("dead", {
      attempt: 2,
      fence: 2,
      runAt: retryAt,
      dueAt: null,
      finishedAt: new Date(START + 33_000),
      output: null,
    });

    await hf.retry(id);
    await hf.cancel(id);
    const now = new Date(START + 33_000);
    const expiresAt = null;
    await look("cancelled", {
      attempt: 0,
      runAt: now,
      dueAt: null,
      finishedAt: now,
      cancelRequestedAt: now,
      expiresAt,
    });

    await hf.retry(id);
    [lease] = await hf.claim();
    await lease?.complete({ twice: 8 });
    await look("completed", {
      attempt: 1,
      fence: 3,
      runAt: now,
      dueAt: null,
      finishedAt: now,
      output: { twice: 8 },
      expiresAt,
    });
    expect([...seen].toSorted()).toEqual([...STATE_NAMES].toSorted());
  });

  it("updatedAt changes with every change", async () => {
    const { hf, clock } = await open();
    const { id } = await hf.enqueue(double, { n: 4 });
    const updated = async (): Promise<number> => (await jobOf(hf, id)).updatedAt.getTime() - START;
    expect(await updated()).toBe(0);
    await clock.advance(10);
    const [lease] = await hf.claim();
    expect(await updated()).toBe(10);
    await clock.advance(10);
    await lease?.start();
    expect(await updated()).toBe(20);
    await clock.advance(10);
    await lease?.complete();
    expect(await updated()).toBe(30);
  });

  it("a list has the same shape as get", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(double, { n: 4 });
    expect((await hf.list()).jobs[0]).toEqual(await hf.get(id));
  });
});
