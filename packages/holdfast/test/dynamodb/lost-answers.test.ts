import { QueryCommand } from "@aws-sdk/client-dynamodb";
import type { ClaimedJob, Outcome, Store } from "holdfast/store";
import { describe, expect, it } from "vitest";
import {
  add,
  attemptRecord,
  claim,
  claimOne,
  failureOf,
  finish,
  insertOne,
  jobIn,
  key,
  leaseOf,
  newJob,
  outcomeOf,
  recordOf,
} from "#src/testing/exercise-store/builders.js";
import {
  addSchedule,
  firedAll,
  fireOne,
  firingFor,
  firingOf,
  jobIds,
  jobOf,
  newSchedule,
  scheduleOf,
  skippedSlot,
} from "#src/testing/exercise-store/schedule-builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import type { Asked } from "./proxy.js";
import { openScene } from "./scene.js";
import { dynamoServer } from "./server.js";

/**
 * Each time DynamoDB has done what it was asked, and its answer is lost on the way. The store asks again, and says what it
 * would have said.
 */
const server = dynamoServer();

const LARGE = JSON.stringify("x".repeat(2_000));
/** A request of this kind whose text has this in it. */
const to =
  (operation: string, part: string | RegExp = "") =>
  (asked: Asked): boolean =>
    asked.operation === operation && asked.text.search(part) >= 0;

async function itemsIn(table: string, pk: string): Promise<Record<string, unknown>[]> {
  const client = server.client();
  const { Items } = await client.send(
    new QueryCommand({
      TableName: table,
      KeyConditionExpression: "pk = :pk",
      ExpressionAttributeValues: { ":pk": { S: pk } },
    }),
  );
  client.destroy();
  return Items ?? [];
}
async function itemsOf(table: string, pk: string): Promise<number> {
  return (await itemsIn(table, pk)).length;
}

/** What a deleted job leaves, until DynamoDB clears it away: no job, and in no index. */
const LEFT = [["dropped", "listed", "pk", "sk", "ttl"]];
/** The attributes of each item of a job. */
async function leftOf(table: string, id: string): Promise<string[][]> {
  return (await itemsIn(table, `job#${id}`)).map((item) => Object.keys(item).toSorted());
}

describe("an insert whose answer is lost", () => {
  it.each([
    ["plain", "PutItem", {}],
    ["with a large input", "PutItem", { input: LARGE }],
    ["with a unique key", "TransactWriteItems", { unique: key("k", { onConflict: "reject" as const }) }],
  ])("%s: the job is inserted, and once", async (_what, operation, given) => {
    const { store, proxy } = await openScene(server);
    const job = newJob(given);
    const lost = proxy.loseAnswerTo(to(operation, `"sk":{"S":"job"}`));
    expect(await insertOne(store, job)).toEqual({ status: "inserted" });
    await lost;
    expect(await recordOf(store, job.id)).toMatchObject({ input: job.input, state: "pending" });
    expect(await jobIds(store, {})).toEqual([job.id]);
  });

  it("is inserted also if a worker has begun with it before it is asked for again", async () => {
    const { store, proxy, direct } = await openScene(server);
    const lost = proxy.loseAnswerTo(to("PutItem", "job#"));
    const inserting = insertOne(store, newJob());
    await lost;
    const heldUp = proxy.refuse("throttled", 1, to("PutItem"));
    const other = direct();
    await until("another to have claimed it", async () => (await claim(other)).length === 1);
    heldUp.end();
    expect(await inserting).toEqual({ status: "inserted" });
  });

  it.each<[string, (store: Store, job: ClaimedJob) => Promise<unknown>]>([
    ["completed and not kept", (store, job) => finish(store, job, "completed", { keep: false })],
    [
      "completed and purged",
      async (store, job) => {
        await finish(store, job);
        expect(await store.purge({ state: "completed", before: null, keep: null, limit: 10 })).toBe(1);
      },
    ],
    [
      "released and removed",
      async (store, job) => {
        await finish(store, job, "pending");
        expect(await store.remove([job.id])).toEqual(["removed"]);
      },
    ],
  ])("is not inserted again if the job was %s before it is asked for again", async (_what, end) => {
    const { store, proxy, direct } = await openScene(server);
    const lost = proxy.loseAnswerTo(to("PutItem", `"sk":{"S":"job"}`));
    const job = newJob({ input: LARGE });
    const inserting = insertOne(store, job);
    await lost;
    const heldUp = proxy.refuse("throttled", 1, to("PutItem"));
    const other = direct();
    const [leased] = await until("another to have claimed it", async () => {
      const found = await claim(other);
      return found.length > 0 && (found as [ClaimedJob]);
    });
    await end(other, leased);
    heldUp.end();
    expect(await inserting).toEqual({ status: "inserted" });
    expect(await claim(other)).toEqual([]);
    expect(await store.get(job.id)).toBeNull();
    expect(await jobIds(store, {})).toEqual([]);
    // Whoever asks for it anew gets it anew.
    expect(await insertOne(store, job)).toEqual({ status: "inserted" });
    expect(await claim(other)).toMatchObject([{ id: job.id, input: LARGE, fence: 1 }]);
  });

  it("replaces the holder of its key once", async () => {
    const { store, proxy } = await openScene(server);
    const first = await add(store, { unique: key("k"), input: LARGE });
    const lost = proxy.loseAnswerTo(to("TransactWriteItems", "Update"));
    const second = newJob({ unique: key("k", { onConflict: "replace" }), input: `"new"` });
    expect(await insertOne(store, second)).toEqual({ status: "duplicate", of: first, replaced: true });
    await lost;
    expect(await recordOf(store, first)).toMatchObject({ input: `"new"` });
  });
});

describe("a claim whose answer is lost", () => {
  it("hands the job out once, with its fence and attempt", async () => {
    const { store, proxy } = await openScene(server);
    const id = await add(store, { input: LARGE });
    const lost = proxy.loseAnswerTo(to("UpdateItem", `job#${id}`));
    expect(await claim(store, { worker: "w7" })).toMatchObject([
      {
        id,
        fence: 1,
        attempt: 1,
        losses: 0,
        input: LARGE,
        previous: { state: "pending", attempt: 0, exhausted: false },
      },
    ]);
    await lost;
    expect(await claim(store)).toEqual([]);
    expect(await recordOf(store, id)).toMatchObject({ state: "claimed", worker: "w7", fence: 1, attempt: 1 });
  });

  it("takes over a lost lease once, and keeps that in the job's history once", async () => {
    const { store, proxy } = await openScene(server, { marginMs: 0 });
    const id = await add(store);
    await claim(store, { leaseMs: 1 });
    const lost = proxy.loseAnswerTo(to("TransactWriteItems", `job#${id}`));
    const [job] = await until("the lease to end", async () => {
      const found = await claim(store);
      return found.length > 0 && found;
    });
    await lost;
    expect(job).toMatchObject({ id, fence: 2, attempt: 1, losses: 1, previous: { state: "claimed" } });
    expect((await recordOf(store, id)).attempts).toHaveLength(1);
  });

  it("hands out a job whose attempts are used up, so that it can be laid down", async () => {
    const { store, proxy } = await openScene(server);
    const id = await jobIn(store, "failed", { maxAttempts: 1 });
    const lost = proxy.loseAnswerTo(to("UpdateItem", /\(#due_at = /));
    expect(await claim(store)).toMatchObject([{ id, fence: 2, previous: { state: "failed", exhausted: true } }]);
    await lost;
  });
});

describe("a lease whose answer is lost", () => {
  it("is started, and extended", async () => {
    const { store, proxy } = await openScene(server);
    const id = await jobIn(store, "claimed");
    const lease = await leaseOf(store, id);
    const started = proxy.loseAnswerTo(to("UpdateItem", `job#${id}`));
    expect(await store.start([{ ...lease, startedAt: 7 }])).toEqual(["kept"]);
    await started;
    const extended = proxy.loseAnswerTo(to("UpdateItem", `job#${id}`));
    expect(await store.extend([lease], 90_000)).toEqual(["kept"]);
    await extended;
    const { state, dueAt, startedAt } = await recordOf(store, id);
    expect([state, startedAt]).toEqual(["running", 7]);
    expect(dueAt).toBeGreaterThan(Date.now() + 60_000);
  });
});

describe("an outcome whose answer is lost", () => {
  const failure = (job: ClaimedJob): Outcome => failureOf(job, "no", { delayMs: 60_000 });
  it.each<[string, (job: ClaimedJob) => Outcome, object]>([
    ["completed", (job) => outcomeOf(job, "completed", { output: `"done"` }), { state: "completed", output: `"done"` }],
    ["completed, kept for a while", (job) => outcomeOf(job, "completed", { keepMs: 60_000 }), { state: "completed" }],
    ["failed", failure, { state: "failed", attempt: 1, attempts: [{ attempt: 1 }] }],
    [
      "dead",
      (job) => outcomeOf(job, "dead", { attemptRecord: attemptRecord(1, "no") }),
      { state: "dead", attempts: [{ attempt: 1 }] },
    ],
    ["released", (job) => outcomeOf(job, "pending"), { state: "pending", attempt: 0, attempts: [] }],
    ["cancelled", (job) => outcomeOf(job, "cancelled"), { state: "cancelled" }],
  ])("%s: is applied once", async (_what, outcome, record) => {
    const { store, proxy } = await openScene(server);
    await add(store);
    const job = await claimOne(store);
    const lost = proxy.loseAnswerTo(
      ({ operation, text }) => ["UpdateItem", "TransactWriteItems"].includes(operation) && text.includes("#state"),
    );
    expect(await store.settle([outcome(job)])).toEqual(["applied"]);
    await lost;
    const stored = await recordOf(store, job.id);
    expect(stored).toMatchObject(record);
    expect((await store.stats()).counts).toMatchObject([{ state: stored.state, count: 1 }]);
  });

  it("completed and not kept: is applied, and nothing of the job is left behind", async () => {
    const { store, proxy, table } = await openScene(server);
    const id = await add(store, { input: LARGE, unique: key("k") });
    const job = await claimOne(store);
    const lost = proxy.loseAnswerTo(to("PutItem", `job#${id}`));
    expect(await store.settle([outcomeOf(job, "completed", { keep: false })])).toEqual(["applied"]);
    await lost;
    expect(await leftOf(table, id)).toEqual(LEFT);
    expect(await itemsOf(table, "key#k")).toBe(0);
  });

  it("completed and cleared away later: its key goes at once", async () => {
    const { store, proxy, table } = await openScene(server);
    const id = await add(store, { unique: key("k") });
    const job = await claimOne(store);
    const lost = proxy.loseAnswerTo(to("UpdateItem", `job#${id}`));
    expect(await store.settle([outcomeOf(job, "completed", { keepMs: 60_000 })])).toEqual(["applied"]);
    await lost;
    expect(await itemsOf(table, "key#k")).toBe(0);
  });

  it("is counted once, even if the answer to the count is lost as well", async () => {
    const { store, proxy } = await openScene(server);
    await add(store);
    const job = await claimOne(store);
    const settled = proxy.loseAnswerTo(to("UpdateItem", `job#${job.id}`));
    const counted = proxy.loseAnswerTo(to("UpdateItem", `"counts#`));
    const ended = proxy.loseAnswerTo(to("UpdateItem", `"ended#`));
    await store.settle([outcomeOf(job, "completed")]);
    await settled;
    await store.stats();
    await Promise.all([counted, ended]);
    const { counts, lastMinute } = await store.stats();
    expect(counts).toMatchObject([{ state: "completed", count: 1 }]);
    expect(lastMinute.completed).toBe(1);
  });
});

describe("what people do to jobs, when the answer is lost", () => {
  it.each([
    ["pending", "cancelled", "cancelled"],
    ["failed", "cancelled", "cancelled"],
    ["running", "requested", "running"],
  ] as const)("cancel: a job that is %s is answered %s", async (from, answer, state) => {
    const { store, proxy } = await openScene(server);
    const id = await jobIn(store, from);
    const lost = proxy.loseAnswerTo(({ text }) => text.includes("cancel_at"));
    expect(await store.cancel([id])).toEqual([answer]);
    await lost;
    const record = await recordOf(store, id);
    expect(record.state).toBe(state);
    expect(record.cancelRequestedAt).not.toBeNull();
  });

  it.each([
    ["dead", null],
    ["dead", key("k")],
    ["cancelled", null],
    ["failed", null],
  ] as const)("retry: a job that is %s, with the key %o, is retried", async (from, unique) => {
    const { store, proxy } = await openScene(server);
    const id = await jobIn(store, from, { unique });
    const lost = proxy.loseAnswerTo(({ text }) => text.includes("#run_at"));
    expect(await store.retry([id])).toEqual(["retried"]);
    await lost;
    expect(await claim(store)).toMatchObject([{ id, fence: 2 }]);
    expect(await claim(store)).toEqual([]);
  });

  it("remove: the job is removed with all that belongs to it", async () => {
    const { store, proxy, table } = await openScene(server);
    const id = await add(store, { input: LARGE, unique: key("k", { scope: "forever" }) });
    const lost = proxy.loseAnswerTo(to("PutItem", `"sk":{"S":"job"}`));
    expect(await store.remove([id])).toEqual(["removed"]);
    await lost;
    expect(await leftOf(table, id)).toEqual(LEFT);
    expect(await itemsOf(table, "key#k")).toBe(0);
  });
});

describe("a schedule whose answer is lost", () => {
  it("is put, with its input", async () => {
    const { store, proxy } = await openScene(server);
    const lost = proxy.loseAnswerTo(to("UpdateItem", `"schedules"`));
    expect(await store.putSchedule(newSchedule({ input: LARGE }), null)).toBe("put");
    await lost;
    expect(await scheduleOf(store)).toMatchObject({ input: LARGE });
  });

  it("is fired, and its slot becomes one job", async () => {
    const { store, proxy } = await openScene(server);
    const firing = firingFor(await addSchedule(store, { nextRunAt: 1_000 }), [1_000], { unique: key("k") });
    const lost = proxy.loseAnswerTo(to("TransactWriteItems"));
    expect(await fireOne(store, firing)).toEqual(firedAll(firing));
    await lost;
    expect(await jobIds(store, { schedule: "digest" })).toHaveLength(1);
    expect((await scheduleOf(store)).slots).toHaveLength(1);
  });

  it("is fired also where no slot becomes a job", async () => {
    const { store, proxy } = await openScene(server);
    const schedule = await addSchedule(store, { nextRunAt: 1_000 });
    const firing = firingOf(schedule, { lastSlot: 1_000, nextRunAt: 2_000, slots: [skippedSlot(1_000, "missed")] });
    const lost = proxy.loseAnswerTo(to("TransactWriteItems"));
    expect(await fireOne(store, firing)).toEqual(firedAll(firing));
    await lost;
    expect((await scheduleOf(store)).slots).toHaveLength(1);
  });

  it("is fired without anybody hearing of it: the job that was made keeps its input", async () => {
    const { store, proxy } = await openScene(server);
    const schedule = await addSchedule(store, { nextRunAt: 1_000, input: LARGE });
    const firing = firingFor(schedule, [1_000], { input: LARGE });
    const lost = proxy.loseAnswerTo(to("TransactWriteItems"));
    const firings = store.fire([firing]);
    firings.catch(() => {});
    await lost;
    const refused = proxy.refuse("AccessDeniedException", 1, to("TransactWriteItems"));
    await expect(firings).rejects.toMatchObject({ code: "STORE_UNREADABLE" });
    refused.end();
    // As the scheduler does.
    expect(await fireOne(store, firing)).toEqual({ status: "changed" });
    expect(await claim(store)).toMatchObject([{ id: jobOf(firing), input: LARGE }]);
  });

  it("is not fired, and that is known: no input is left behind", async () => {
    const { store, table } = await openScene(server);
    const schedule = await addSchedule(store, { nextRunAt: 1_000 });
    const firing = firingFor(schedule, [1_000], { input: LARGE });
    expect(await fireOne(store, { ...firing, version: "another" })).toEqual({ status: "changed" });
    expect(await itemsOf(table, `job#${jobOf(firing)}`)).toBe(0);
  });

  it("is removed, with what it kept", async () => {
    const { store, proxy, table } = await openScene(server);
    await addSchedule(store, { input: LARGE });
    const lost = proxy.loseAnswerTo(to("DeleteItem", `"schedules"`));
    expect(await store.removeSchedule("digest")).toBe(true);
    await lost;
    expect(await itemsOf(table, "slots#digest")).toBe(0);
  });
});

it("a turn whose answer is lost is taken, by one", async () => {
  const { store, proxy } = await openScene(server);
  const lost = proxy.loseAnswerTo(to("UpdateItem", "turns"));
  expect(await store.tryAcquireDuty("purge", 60_000)).toBe(true);
  await lost;
  expect(await store.tryAcquireDuty("purge", 60_000)).toBe(false);
});
