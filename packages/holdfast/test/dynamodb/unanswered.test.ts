import { job, type Holdfast, type Job } from "holdfast";
import { dynamodb } from "holdfast/dynamodb";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { add, claim, claimOne, failureOf, insertOne, newJob, recordOf } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { startProxy, type Asked } from "./proxy.js";
import { openClient, openScene } from "./scene.js";
import { dynamoServer, REGION } from "./server.js";

const server = dynamoServer();

const ofJob =
  (operation: string) =>
  (asked: Asked): boolean =>
    asked.operation === operation && asked.text.includes('"job#');

describe("an answer that is cut off in its middle is one that is lost: what was asked is asked again", () => {
  it("by an insert", async () => {
    const { store, proxy } = await openScene(server);
    const cut = proxy.cutAnswerTo(ofJob("PutItem"));
    expect(await insertOne(store, newJob())).toEqual({ status: "inserted" });
    await cut;
  });

  it("by a claim", async () => {
    const { store, proxy } = await openScene(server);
    const id = await add(store);
    const cut = proxy.cutAnswerTo(ofJob("UpdateItem"));
    expect((await claim(store)).map((job) => job.id)).toEqual([id]);
    await cut;
  });

  it("by an outcome", async () => {
    const { store, proxy } = await openScene(server);
    await add(store);
    const leased = await claimOne(store);
    const cut = proxy.cutAnswerTo(({ text }) => text.includes(leased.id));
    expect(await store.settle([failureOf(leased, "no")])).toEqual(["applied"]);
    await cut;
    expect(await recordOf(store, leased.id)).toMatchObject({ state: "failed", error: { message: "no" } });
  });
});

describe("requests that are taken and never answered", () => {
  it("are given up and sent again", async () => {
    const { proxy, again } = await openScene(server);
    const store = again({ requestTimeoutMs: 200 });
    const silence = proxy.swallow();
    const inserted = insertOne(store, newJob());
    await until("it to be asked again", () => silence.count >= 2);
    silence.end();
    expect(await inserted).toEqual({ status: "inserted" });
  });

  it("do not hold up a worker once they are answered again", { timeout: 30_000 }, async () => {
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
    const silence = proxy.swallow();
    await until("the worker to ask in vain", () => silence.count >= 2);
    silence.end();
    await runs(other);
  });
});

describe("an error of DynamoDB's that nobody knows says nothing of the job", () => {
  it.each(["IDPCommunicationErrorException", "Throttling", "KMSInternalException"])(
    "with %s once, what its handler returned is kept",
    async (name) => {
      const table = server.newTable();
      const client = server.client();
      let armed = false;
      client.middlewareStack.add(
        (next, { commandName }) =>
          async (args) => {
            if (armed && commandName === "UpdateItemCommand" && JSON.stringify(args.input).includes('"job#')) {
              armed = false;
              const told = new Error("not this moment");
              throw Object.assign(told, { name, $metadata: { httpStatusCode: 400 } });
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

it("a machine whose clock is ten minutes off can open the store: the request is signed again", async () => {
  const proxy = await startProxy(server.endpoint());
  proxy.checkSigningTime();
  const now = Date.now;
  vi.spyOn(Date, "now").mockImplementation(() => now() + 600_000);
  onTestFinished(() => void vi.restoreAllMocks());
  const table = server.newTable();
  onTestFinished(() => server.drop(table));
  const store = dynamodb({ table, region: REGION, endpoint: proxy.endpoint });
  onTestFinished(() => store.close());
  await store.migrate();
});

describe("pages of a list", () => {
  it("are told apart by cursors that the client takes back", async () => {
    const { store } = await openScene(server);
    const type = job({ type: "t", run: () => {} });
    const hf = await openClient({ store, jobs: [type] });
    const made = await Promise.all(Array.from({ length: 5 }, () => hf.enqueue(type, {}, { user: "ada" })));
    for (const of of [hf, hf.forUser("ada")]) {
      const found: string[] = [];
      let cursor: string | null = null;
      do {
        const page: { jobs: Job[]; cursor: string | null } = await of.list({ limit: 2, cursor });
        found.push(...page.jobs.map(({ id }) => id));
        cursor = page.cursor;
      } while (cursor !== null);
      expect(found.toSorted()).toEqual(made.map(({ id }) => id).toSorted());
    }
  });
});

it("tells how many shards the table has, and that order is strict only with one", async () => {
  const { store, again } = await openScene(server, { shards: 1 });
  await store.insert([newJob()]);
  expect(await store.shards()).toBe(1);
  expect(store.capabilities.strictOrder).toBe(true);
  await again({ shards: 4 }).insert([newJob()]);
  expect(await store.shards()).toBe(4);
  expect(store.capabilities.strictOrder).toBe(false);
});
