import { QueryCommand } from "@aws-sdk/client-dynamodb";
import type { ClaimedJob, Outcome, Store } from "holdfast/store";
import { fakeClock } from "holdfast/testing";
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
  newOperation,
  outcomeOf,
  recordOf,
  workerRecord,
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
import { newErrorGroup } from "./every-call.js";
import type { SentRequest } from "./proxy.js";
import { openScene } from "./scene.js";
import { dynamoServer } from "./server.js";

/**
 * Each time, DynamoDB does the write and its response is lost. The store sends the request again and returns the same
 * result.
 */
const server = dynamoServer();

const LARGE = JSON.stringify("x".repeat(2_000));
/** Matches requests of this operation whose body contains `part`. */
const to =
  (operation: string, part: string | RegExp = "") =>
  (sent: SentRequest): boolean =>
    sent.operation === operation && sent.text.search(part) >= 0;

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

/** The attributes of a tombstone. It is in no index. */
const TOMBSTONE = [["dropped", "listed", "pk", "sk", "ttl"]];
/** That of a job that finished with this write. Followers read its last state in the table's stream. */
const ENDED = [["dropped", "ended", "ended_at", "listed", "pk", "sk", "ttl"]];
/** The attributes of each item of a job. */
async function attributesOf(table: string, id: string): Promise<string[][]> {
  return (await itemsIn(table, `job#${id}`)).map((item) => Object.keys(item).toSorted());
}

describe("an insert whose response is lost", () => {
  it.each([
    ["plain", "PutItem", {}],
    ["with a large input", "PutItem", { input: LARGE }],
    ["with a unique key", "TransactWriteItems", { unique: key("k", { onConflict: "reject" as const }) }],
  ])("%s: inserts the job once", async (_what, operation, given) => {
    const { store, proxy } = await openScene(server);
    const job = newJob(given);
    const lost = proxy.loseNextResponse(to(operation, `"sk":{"S":"job"}`));
    expect(await insertOne(store, job)).toEqual({ status: "inserted" });
    await lost;
    expect(await recordOf(store, job.id)).toMatchObject({ input: job.input, state: "pending" });
    expect(await jobIds(store, {})).toEqual([job.id]);
  });

  it("inserts the job even if it was claimed meanwhile", async () => {
    const { store, proxy, direct } = await openScene(server);
    const lost = proxy.loseNextResponse(to("PutItem", "job#"));
    const inserting = insertOne(store, newJob());
    await lost;
    const delayed = proxy.refuse("throttled", 1, to("PutItem"));
    const other = direct();
    await until("another to have claimed it", async () => (await claim(other)).length === 1);
    delayed.end();
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
  ])("does not insert again a job that was %s meanwhile", async (_what, end) => {
    const { store, proxy, direct } = await openScene(server);
    const lost = proxy.loseNextResponse(to("PutItem", `"sk":{"S":"job"}`));
    const job = newJob({ input: LARGE });
    const inserting = insertOne(store, job);
    await lost;
    const delayed = proxy.refuse("throttled", 1, to("PutItem"));
    const other = direct();
    const [leased] = await until("another to have claimed it", async () => {
      const found = await claim(other);
      return found.length > 0 && (found as [ClaimedJob]);
    });
    await end(other, leased);
    delayed.end();
    expect(await inserting).toEqual({ status: "inserted" });
    expect(await claim(other)).toEqual([]);
    expect(await store.get(job.id)).toBeNull();
    expect(await jobIds(store, {})).toEqual([]);
    // A new enqueue of the same id creates a new job.
    expect(await insertOne(store, job)).toEqual({ status: "inserted" });
    expect(await claim(other)).toMatchObject([{ id: job.id, input: LARGE, fence: 1 }]);
  });

  it("replaces the holder of its key once", async () => {
    const { store, proxy } = await openScene(server);
    const first = await add(store, { unique: key("k"), input: LARGE });
    const lost = proxy.loseNextResponse(to("TransactWriteItems", "Update"));
    const second = newJob({ unique: key("k", { onConflict: "replace" }), input: `"new"` });
    expect(await insertOne(store, second)).toEqual({ status: "duplicate", of: first, replaced: true });
    await lost;
    expect(await recordOf(store, first)).toMatchObject({ input: `"new"` });
  });
});

describe("a claim whose response is lost", () => {
  it("returns the job once with its fence and attempt", async () => {
    const { store, proxy } = await openScene(server);
    const id = await add(store, { input: LARGE });
    const lost = proxy.loseNextResponse(to("UpdateItem", `job#${id}`));
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

  it("takes over an expired lease once", async () => {
    const { store, proxy } = await openScene(server, { marginMs: 0 });
    const id = await add(store);
    await claim(store, { leaseMs: 1 });
    const lost = proxy.loseNextResponse(to("TransactWriteItems", `job#${id}`));
    const [job] = await until("the lease to end", async () => {
      const found = await claim(store);
      return found.length > 0 && found;
    });
    await lost;
    expect(job).toMatchObject({ id, fence: 2, attempt: 1, losses: 1, previous: { state: "claimed" } });
    expect((await recordOf(store, id)).attempts).toHaveLength(1);
  });

  it("returns a job without attempts left", async () => {
    const { store, proxy } = await openScene(server);
    const id = await jobIn(store, "failed", { maxAttempts: 1 });
    const lost = proxy.loseNextResponse(to("UpdateItem", /\(#due_at = /));
    expect(await claim(store)).toMatchObject([{ id, fence: 2, previous: { state: "failed", exhausted: true } }]);
    await lost;
  });
});

describe("a lease call whose response is lost", () => {
  it("starts and extends the lease", async () => {
    const { store, proxy } = await openScene(server);
    const id = await jobIn(store, "claimed");
    const lease = await leaseOf(store, id);
    const started = proxy.loseNextResponse(to("UpdateItem", `job#${id}`));
    expect(await store.start([{ ...lease, startedAt: 7 }])).toEqual(["kept"]);
    await started;
    const extended = proxy.loseNextResponse(to("UpdateItem", `job#${id}`));
    expect(await store.extend([lease], 90_000)).toEqual(["kept"]);
    await extended;
    const { state, dueAt, startedAt } = await recordOf(store, id);
    expect([state, startedAt]).toEqual(["running", 7]);
    expect(dueAt).toBeGreaterThan(Date.now() + 60_000);
  });
});

describe("an outcome whose response is lost", () => {
  const failure = (job: ClaimedJob): Outcome => failureOf(job, "no", { delayMs: 60_000 });
  it.each<[string, (job: ClaimedJob) => Outcome, object]>([
    ["completed", (job) => outcomeOf(job, "completed", { output: `"done"` }), { state: "completed", output: `"done"` }],
    ["completed with a time to live", (job) => outcomeOf(job, "completed", { keepMs: 60_000 }), { state: "completed" }],
    ["failed", failure, { state: "failed", attempt: 1, attempts: [{ attempt: 1 }] }],
    [
      "dead",
      (job) => outcomeOf(job, "dead", { attemptRecord: attemptRecord(1, "no") }),
      { state: "dead", attempts: [{ attempt: 1 }] },
    ],
    ["released", (job) => outcomeOf(job, "pending"), { state: "pending", attempt: 0, attempts: [] }],
    ["cancelled", (job) => outcomeOf(job, "cancelled"), { state: "cancelled" }],
  ])("%s: applies the outcome once", async (_what, outcome, record) => {
    const { store, proxy } = await openScene(server);
    await add(store);
    const job = await claimOne(store);
    const lost = proxy.loseNextResponse(
      ({ operation, text }) => ["UpdateItem", "TransactWriteItems"].includes(operation) && text.includes("#state"),
    );
    expect(await store.settle([outcome(job)])).toEqual(["applied"]);
    await lost;
    const stored = await recordOf(store, job.id);
    expect(stored).toMatchObject(record);
    expect((await store.stats()).counts).toMatchObject([{ state: stored.state, count: 1 }]);
  });

  it("completed and not kept: deletes the job", async () => {
    const { store, proxy, table } = await openScene(server);
    const id = await add(store, { input: LARGE, unique: key("k") });
    const job = await claimOne(store);
    const lost = proxy.loseNextResponse(to("PutItem", `job#${id}`));
    expect(await store.settle([outcomeOf(job, "completed", { keep: false })])).toEqual(["applied"]);
    await lost;
    expect(await attributesOf(table, id)).toEqual(ENDED);
    expect(await itemsOf(table, "key#k")).toBe(0);
  });

  it("completed with a time to live: deletes the key", async () => {
    const { store, proxy, table } = await openScene(server);
    const id = await add(store, { unique: key("k") });
    const job = await claimOne(store);
    const lost = proxy.loseNextResponse(to("UpdateItem", `job#${id}`));
    expect(await store.settle([outcomeOf(job, "completed", { keepMs: 60_000 })])).toEqual(["applied"]);
    await lost;
    expect(await itemsOf(table, "key#k")).toBe(0);
  });

  it("counts the job once even if that response is lost too", async () => {
    const { store, proxy } = await openScene(server);
    await add(store);
    const job = await claimOne(store);
    const settled = proxy.loseNextResponse(to("UpdateItem", `job#${job.id}`));
    const counted = proxy.loseNextResponse(to("UpdateItem", `"counts#`));
    const ended = proxy.loseNextResponse(to("UpdateItem", `"ended#`));
    await store.settle([outcomeOf(job, "completed")]);
    await settled;
    await store.stats();
    await Promise.all([counted, ended]);
    const { counts, lastMinute } = await store.stats();
    expect(counts).toMatchObject([{ state: "completed", count: 1 }]);
    expect(lastMinute.completed).toBe(1);
  });
});

describe("a change whose response is lost", () => {
  it.each([
    ["pending", "cancelled", "cancelled"],
    ["failed", "cancelled", "cancelled"],
    ["running", "requested", "running"],
  ] as const)("cancel: a %s job returns %s", async (from, result, state) => {
    const { store, proxy } = await openScene(server);
    const id = await jobIn(store, from);
    const lost = proxy.loseNextResponse(({ text }) => text.includes("cancel_at"));
    expect(await store.cancel([id])).toEqual([result]);
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
  ] as const)("retry: retries a %s job with the key %o", async (from, unique) => {
    const { store, proxy } = await openScene(server);
    const id = await jobIn(store, from, { unique });
    const lost = proxy.loseNextResponse(({ text }) => text.includes("#run_at"));
    expect(await store.retry([id])).toEqual(["retried"]);
    await lost;
    expect(await claim(store)).toMatchObject([{ id, fence: 2 }]);
    expect(await claim(store)).toEqual([]);
  });

  it("update: changes the job and its input once", async () => {
    const { store, proxy, table } = await openScene(server);
    const id = await add(store, { input: LARGE });
    const lost = proxy.loseNextResponse(to("UpdateItem", "#changed"));
    const input = JSON.stringify("y".repeat(2_000));
    const due = { runAt: null, delayMs: 60_000 };
    expect(await store.update([{ id, input, due, priority: 5 }])).toEqual([{ status: "updated" }]);
    await lost;
    expect(await recordOf(store, id)).toMatchObject({ input, priority: 5 });
    expect(await itemsOf(table, `job#${id}`)).toBe(2);
  });

  it("update: recognizes its write even if the job was claimed meanwhile", async () => {
    const { store, proxy, direct } = await openScene(server);
    const id = await add(store);
    const lost = proxy.loseNextResponse(to("UpdateItem", "#changed"));
    const updating = store.update([{ id, input: LARGE, tags: ["new"] }]);
    await lost;
    const delayed = proxy.refuse("throttled", 1, to("UpdateItem"));
    const other = direct();
    await until("another to have claimed it", async () => (await claim(other)).length === 1);
    delayed.end();
    expect(await updating).toEqual([{ status: "updated" }]);
    expect(await recordOf(store, id)).toMatchObject({ input: LARGE, tags: ["new"], state: "claimed" });
  });

  it("freeKey: frees the key", async () => {
    const { store, proxy } = await openScene(server);
    await add(store, { unique: key("k", { scope: "forever" }) });
    await finish(store, await claimOne(store), "completed", { keep: false });
    const lost = proxy.loseNextResponse(to("DeleteItem", "key#k"));
    expect(await store.freeKey("k")).toBe("freed");
    await lost;
    expect(await store.keyHolder("k")).toBeNull();
  });

  it("remove: deletes the job with its input and key", async () => {
    const { store, proxy, table } = await openScene(server);
    const id = await add(store, { input: LARGE, unique: key("k", { scope: "forever" }) });
    const lost = proxy.loseNextResponse(to("PutItem", `"sk":{"S":"job"}`));
    expect(await store.remove([id])).toEqual(["removed"]);
    await lost;
    expect(await attributesOf(table, id)).toEqual(TOMBSTONE);
    expect(await itemsOf(table, "key#k")).toBe(0);
  });
});

describe("a schedule call whose response is lost", () => {
  it("puts the schedule with its input", async () => {
    const { store, proxy } = await openScene(server);
    const lost = proxy.loseNextResponse(to("UpdateItem", `"schedules"`));
    expect(await store.putSchedule(newSchedule({ input: LARGE }), null)).toBe("put");
    await lost;
    expect(await scheduleOf(store)).toMatchObject({ input: LARGE });
  });

  it("fires the slot as one job", async () => {
    const { store, proxy } = await openScene(server);
    const firing = firingFor(await addSchedule(store, { nextRunAt: 1_000 }), [1_000], { unique: key("k") });
    const lost = proxy.loseNextResponse(to("TransactWriteItems"));
    expect(await fireOne(store, firing)).toEqual(firedAll(firing));
    await lost;
    expect(await jobIds(store, { schedule: "digest" })).toHaveLength(1);
    expect((await scheduleOf(store)).slots).toHaveLength(1);
  });

  it("fires a slot without a job once", async () => {
    const { store, proxy } = await openScene(server);
    const schedule = await addSchedule(store, { nextRunAt: 1_000 });
    const firing = firingOf(schedule, { lastSlot: 1_000, nextRunAt: 2_000, slots: [skippedSlot(1_000, "missed")] });
    const lost = proxy.loseNextResponse(to("TransactWriteItems"));
    expect(await fireOne(store, firing)).toEqual(firedAll(firing));
    await lost;
    expect((await scheduleOf(store)).slots).toHaveLength(1);
  });

  it("keeps the input of a fired job after an error", async () => {
    const { store, proxy } = await openScene(server);
    const schedule = await addSchedule(store, { nextRunAt: 1_000, input: LARGE });
    const firing = firingFor(schedule, [1_000], { input: LARGE });
    const lost = proxy.loseNextResponse(to("TransactWriteItems"));
    const firings = store.fire([firing]);
    firings.catch(() => {});
    await lost;
    const refused = proxy.refuse("AccessDeniedException", 1, to("TransactWriteItems"));
    await expect(firings).rejects.toMatchObject({ code: "STORE_UNREADABLE" });
    refused.end();
    // The scheduler does the same.
    expect(await fireOne(store, firing)).toEqual({ status: "changed" });
    expect(await claim(store)).toMatchObject([{ id: jobOf(firing), input: LARGE }]);
  });

  it("deletes the input of a firing that changed nothing", async () => {
    const { store, table } = await openScene(server);
    const schedule = await addSchedule(store, { nextRunAt: 1_000 });
    const firing = firingFor(schedule, [1_000], { input: LARGE });
    expect(await fireOne(store, { ...firing, version: "another" })).toEqual({ status: "changed" });
    expect(await itemsOf(table, `job#${jobOf(firing)}`)).toBe(0);
  });

  it("removes the schedule with its details", async () => {
    const { store, proxy, table } = await openScene(server);
    await addSchedule(store, { input: LARGE });
    const lost = proxy.loseNextResponse(to("DeleteItem", `"schedules"`));
    expect(await store.removeSchedule("digest")).toBe(true);
    await lost;
    expect(await itemsOf(table, "slots#digest")).toBe(0);
  });
});

it("acquires a duty once after a lost response", async () => {
  const { store, proxy } = await openScene(server);
  const lost = proxy.loseNextResponse(to("UpdateItem", "turns"));
  expect(await store.tryAcquireDuty("purge", 60_000)).toBe(true);
  await lost;
  expect(await store.tryAcquireDuty("purge", 60_000)).toBe(false);
});

describe("a call about an operation whose response is lost", () => {
  const lease = { owner: "a", leaseMs: 60_000 };

  it("put, save and end: change it once", async () => {
    const { store, proxy } = await openScene(server);
    const operation = newOperation();
    const { id } = operation;
    const put = proxy.loseNextResponse(to("TransactWriteItems", "operations"));
    await store.putOperation(operation, lease);
    await put;
    expect(await store.operations()).toMatchObject([{ id, owner: "a", state: "running" }]);
    const saved = proxy.loseNextResponse(to("UpdateItem", "operations"));
    expect(await store.saveOperation({ id, ...lease, summary: "1" })).toBe("kept");
    await saved;
    const stopped = proxy.loseNextResponse(to("UpdateItem", "#stop"));
    expect(await store.stopOperation(id)).toBe(true);
    await stopped;
    const end = proxy.loseNextResponse(to("TransactWriteItems", "operations"));
    expect(await store.endOperation({ id, owner: "a", state: "stopped", summary: "2" })).toBe(true);
    await end;
    expect(await store.getOperation(id)).toMatchObject({ state: "stopped", summary: "2" });
  });

  it("claim: returns the operation that it claimed", async () => {
    const { store, proxy } = await openScene(server);
    const operation = newOperation({ plan: '{"n":1}' });
    await store.putOperation(operation, { owner: "a", leaseMs: 0 });
    const lost = proxy.loseNextResponse(to("UpdateItem", "operations"));
    expect(await store.claimOperation({ ...lease, owner: "b" })).toMatchObject({ ...operation, owner: "b" });
    await lost;
    expect(await store.claimOperation({ ...lease, owner: "c" })).toBeNull();
  });

  it("heartbeat and drainWorker: keep that a worker drains", async () => {
    const { store, proxy } = await openScene(server);
    await store.heartbeat(workerRecord());
    const drained = proxy.loseNextResponse(to("UpdateItem", "draining"));
    expect(await store.drainWorker("w1", true)).toBe(true);
    await drained;
    const lost = proxy.loseNextResponse(to("UpdateItem", "seen_at"));
    expect(await store.heartbeat(workerRecord())).toEqual({ draining: true });
    await lost;
  });
});

describe("a call for people whose response is lost", () => {
  it("pause: keeps who paused the queue", async () => {
    const { store, proxy } = await openScene(server);
    const lost = proxy.loseNextResponse(to("UpdateItem", "paused_by"));
    await store.pause("mail", "ada");
    await lost;
    expect(await store.queues()).toMatchObject([{ queue: "mail", paused: true, pausedBy: "ada" }]);
  });

  it("recordErrors: stores the group", async () => {
    const { store, proxy } = await openScene(server);
    const lost = proxy.loseNextResponse(to("UpdateItem", "error-groups"));
    await store.recordErrors([newErrorGroup()]);
    await lost;
    // A repeated request may count twice.
    expect(await store.errorGroups(10)).toMatchObject([{ fingerprint: newErrorGroup().fingerprint }]);
  });

  it("mergeHistory: merges once", async () => {
    const { store, proxy } = await openScene(server);
    const record = { resolution: "minute", at: 60_000, writer: "a", data: "1" } as const;
    const replaced = [record, { ...record, writer: "b" }];
    await store.putHistory(replaced);
    const lost = proxy.loseNextResponse(to("TransactWriteItems", "history#"));
    expect(await store.mergeHistory({ record: { ...record, data: "2" }, replaced })).toBe(true);
    await lost;
    const range = { resolution: "minute", from: 0, to: 120_000, limit: 10, after: null } as const;
    expect((await store.history(range)).records).toEqual([{ ...record, data: "2" }]);
  });

  it("recordTransitions: returns a cursor of the epoch that it began", async () => {
    const { store, proxy } = await openScene(server, { clock: fakeClock() });
    const lost = proxy.loseNextResponse(to("UpdateItem", "#epoch"));
    const cursor = await store.recordTransitions(60_000);
    await lost;
    const id = await add(store);
    expect(await store.transitions(cursor, 10)).toMatchObject({ transitions: [{ id, to: "pending" }] });
  });

  it.each([
    ["start", (store: Store, job: ClaimedJob) => store.start([{ ...job, startedAt: 7 }]), "running"],
    ["settle", (store: Store, job: ClaimedJob) => store.settle([outcomeOf(job, "dead")]), "dead"],
    ["complete", (store: Store, job: ClaimedJob) => store.settle([outcomeOf(job, "completed")]), "completed"],
    ["fail", (store: Store, job: ClaimedJob) => store.settle([failureOf(job, "no")]), "failed"],
    ["release", (store: Store, job: ClaimedJob) => store.settle([outcomeOf(job, "pending")]), "pending"],
  ] as const)("%s: records one transition", async (_what, change, state) => {
    const { store, proxy } = await openScene(server, { clock: fakeClock() });
    const id = await add(store);
    const job = await claimOne(store);
    const cursor = await store.recordTransitions(60_000);
    const lost = proxy.loseNextResponse(
      ({ operation, text }) => ["UpdateItem", "TransactWriteItems"].includes(operation) && text.includes(`job#${id}`),
    );
    await change(store, job);
    await lost;
    const page = await store.transitions(cursor, 10);
    expect(page?.transitions).toMatchObject([{ id, to: state }]);
  });
});
