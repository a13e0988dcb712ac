import { randomUUID } from "node:crypto";
import { job, type Holdfast, type Job } from "holdfast";
import { dynamodb } from "holdfast/dynamodb";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { add, claim, claimOne, failureOf, insertOne, newJob, recordOf } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { startProxy, type SentRequest } from "./proxy.js";
import { openClient, openScene } from "./scene.js";
import { dynamoServer, REGION } from "./server.js";

const server = dynamoServer();

const ofJob =
  (operation: string) =>
  (sent: SentRequest): boolean =>
    sent.operation === operation && sent.text.includes('"job#');

describe("a truncated response", () => {
  it("of an insert is a lost response", async () => {
    const { store, proxy } = await openScene(server);
    const cut = proxy.cutNextResponse(ofJob("PutItem"));
    expect(await insertOne(store, newJob())).toEqual({ status: "inserted" });
    await cut;
  });

  it("of a claim is a lost response", async () => {
    const { store, proxy } = await openScene(server);
    const id = await add(store);
    const cut = proxy.cutNextResponse(ofJob("UpdateItem"));
    expect((await claim(store)).map((job) => job.id)).toEqual([id]);
    await cut;
  });

  it("of an outcome is a lost response", async () => {
    const { store, proxy } = await openScene(server);
    await add(store);
    const leased = await claimOne(store);
    const cut = proxy.cutNextResponse(({ text }) => text.includes(leased.id));
    expect(await store.settle([failureOf(leased, "no")])).toEqual(["applied"]);
    await cut;
    expect(await recordOf(store, leased.id)).toMatchObject({ state: "failed", error: { message: "no" } });
  });
});

describe("requests without a response", () => {
  it("are sent again after the timeout", async () => {
    const { proxy, again } = await openScene(server);
    const store = again({ requestTimeoutMs: 200 });
    const outage = proxy.ignoreRequests();
    const inserted = insertOne(store, newJob());
    await until("the request to be sent again", () => outage.count >= 2);
    outage.end();
    expect(await inserted).toEqual({ status: "inserted" });
  });

  it("do not block a worker after the outage", { timeout: 30_000 }, async () => {
    const { proxy, again, direct } = await openScene(server);
    const ran: string[] = [];
    const type = job({ type: "t", run: ({ job: { id } }) => void ran.push(id) });
    const [hf, other] = await Promise.all([
      openClient({ store: again({ requestTimeoutMs: 500 }), jobs: [type] }),
      openClient({ store: direct(), jobs: [type] }),
    ]);
    hf.work({ poll: "100ms", lease: "5s" });
    const runs = async (client: Holdfast): Promise<void> => {
      const { id } = await client.enqueue(type);
      await until("the job to have run", () => ran.includes(id), 20_000);
    };
    await runs(other);
    const outage = proxy.ignoreRequests();
    await until("the worker to poll without a response", () => outage.count >= 2);
    outage.end();
    await runs(other);
  });
});

describe("an unknown error of DynamoDB", () => {
  it.each(["IDPCommunicationErrorException", "Throttling", "KMSInternalException"])(
    "%s does not lose the output",
    async (name) => {
      const table = server.newTable();
      const client = server.client();
      let armed = false;
      client.middlewareStack.add(
        (next, { commandName }) =>
          async (args) => {
            if (armed && commandName === "UpdateItemCommand" && JSON.stringify(args.input).includes('"job#')) {
              armed = false;
              const unknown = new Error("temporarily unavailable");
              throw Object.assign(unknown, { name, $metadata: { httpStatusCode: 400 } });
            }
            return next(args);
          },
        { step: "initialize" },
      );
      onTestFinished(async () => {
        client.destroy();
        await server.drop(table);
      });
      const type = job({
        type: "t",
        run() {
          armed = true;
          return "done";
        },
      });
      const hf = await openClient({ store: dynamodb({ table, client }), jobs: [type] });
      hf.work({ poll: "100ms" });
      const { id } = await hf.enqueue(type);
      expect(await hf.result(type, id, { timeout: "10s" })).toBe("done");
      expect(armed).toBe(false);
    },
  );
});

it("signs a request again when the clock is wrong", async () => {
  const proxy = await startProxy(server.endpoint());
  proxy.checkSigningTime();
  const now = Date.now;
  vi.spyOn(Date, "now").mockImplementation(() => now() + 600_000);
  onTestFinished(() => void vi.restoreAllMocks());
  const table = server.newTable();
  onTestFinished(() => server.drop(table));
  const store = dynamodb({ table, region: REGION, endpoint: proxy.endpoint });
  onTestFinished(() => store.close());
  // The error that the table does not exist yet is no reason to send the request again.
  await expect(store.get(randomUUID())).rejects.toThrow(table);
  expect(proxy.requests.get("GetItem")).toBe(2);
  await store.migrate();
});

describe("pages of a list", () => {
  it("follow each other by cursor", async () => {
    const { store } = await openScene(server);
    const type = job({ type: "t", run: () => {} });
    const hf = await openClient({ store, jobs: [type] });
    const enqueued = await Promise.all(Array.from({ length: 5 }, () => hf.enqueue(type, {}, { user: "ada" })));
    for (const of of [hf, hf.forUser("ada")]) {
      const found: string[] = [];
      let cursor: string | null = null;
      do {
        const page: { jobs: Job[]; cursor: string | null } = await of.list({ limit: 2, cursor });
        found.push(...page.jobs.map(({ id }) => id));
        cursor = page.cursor;
      } while (cursor !== null);
      expect(found.toSorted()).toEqual(enqueued.map(({ id }) => id).toSorted());
    }
  });
});

it("reports the number of shards and strict order", async () => {
  const { store, again } = await openScene(server, { shards: 1 });
  await store.insert([newJob()]);
  expect(await store.shards()).toBe(1);
  expect(store.capabilities.strictOrder).toBe(true);
  await again({ shards: 4 }).insert([newJob()]);
  expect(await store.shards()).toBe(4);
  expect(store.capabilities.strictOrder).toBe(false);
});
