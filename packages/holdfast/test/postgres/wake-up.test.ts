import { holdfast, job, type Holdfast } from "holdfast";
import { postgres } from "holdfast/postgres";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import type { Db } from "#src/stores/postgres/connection/db.js";
import { Notifier } from "#src/stores/postgres/notify/notifier.js";
import { claim, newJobs } from "#src/testing/exercise-store/builders.js";
import { deferred } from "../engine/scene.js";
import { addressOf, ownSchema } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

interface Scene {
  address: string;
  /** The notifications on the store's channel since the last call. */
  received: () => string[];
  /** Resolves when all notifications so far are received. */
  quiet: () => Promise<void>;
}

async function scene(): Promise<Scene> {
  const schema = ownSchema(server);
  const ear = await server.client();
  onTestFinished(() => ear.end());
  const said: string[] = [];
  let receivedMark = deferred<void>();
  ear.on("notification", ({ payload = "" }) => {
    if (payload === "mark") receivedMark.resolve();
    else said.push(payload.split(" ")[1] ?? "");
  });
  await ear.query(`LISTEN holdfast_${schema}`);
  return {
    address: addressOf(server.url(), schema),
    received: () => said.splice(0),
    async quiet() {
      receivedMark = deferred<void>();
      await server.query(`NOTIFY holdfast_${schema}, 'mark'`);
      await receivedMark.promise;
    },
  };
}

const nothing = job({ type: "nothing", run() {} });

async function client(address: string, poll?: string): Promise<Holdfast> {
  const hf = await holdfast({ store: address, jobs: [nothing], logger: false });
  onTestFinished(() => hf.close());
  if (poll !== undefined) hf.work({ poll });
  return hf;
}

describe("other processes are notified of work", () => {
  it("immediately by a process without a worker", async () => {
    const { address, received, quiet } = await scene();
    const hf = await client(address);
    await hf.enqueue(nothing);
    await hf.close();
    await quiet();
    expect(received()).toEqual(["work"]);
  });

  it("if the local worker is busy or serves other queues", async () => {
    const { address } = await scene();
    const gate = deferred<void>();
    const slow = job({ type: "slow", run: () => gate.promise });
    const here = await holdfast({ store: address, jobs: [slow, nothing], logger: false });
    onTestFinished(() => here.close());
    const began = new Promise<void>((resolve) => here.on("claimed", () => resolve()));
    here.work({ concurrency: 1, queues: ["default"], poll: "1h" });
    await here.enqueue(slow);
    await began;
    // Another process that never polls, and runs only jobs that it was notified of.
    const other = await client(address, "1h");
    for (const queue of ["default", "other"]) {
      const { id } = await here.enqueue(nothing, undefined, { queue });
      await other.result(id, { timeout: "10s" });
    }
    gate.resolve();
  });

  it("if a local claim leaves some jobs", async () => {
    const { address, received, quiet } = await scene();
    const store = postgres(address);
    onTestFinished(() => store.close());
    await store.migrate();
    expect(await claim(store)).toEqual([]);
    await store.insert(newJobs(3, { input: JSON.stringify("x".repeat(100)) }));
    expect(await claim(store, { bytes: 150 })).toHaveLength(1);
    await store.close();
    await quiet();
    expect(received()).toEqual(["work"]);
  });

  it("when a transaction commits, including this process", async () => {
    const { address } = await scene();
    const hf = await client(address, "1h");
    const tx = await server.client();
    onTestFinished(() => tx.end());
    for (let n = 0; n < 3; n++) {
      await tx.query("BEGIN");
      const { id } = await hf.enqueue(nothing, undefined, { tx });
      await tx.query("COMMIT");
      await hf.result(id, { timeout: "10s" });
    }
  });

  it("not with notify: false; they poll", async () => {
    const { address, received, quiet } = await scene();
    const silent = async (poll?: string): Promise<Holdfast> => {
      const hf = await holdfast({ store: postgres(address, { notify: false }), jobs: [nothing], logger: false });
      onTestFinished(() => hf.close());
      if (poll !== undefined) hf.work({ poll });
      return hf;
    };
    const [from, at] = [await silent(), await silent("50ms")];
    await at.result((await from.enqueue(nothing)).id, { timeout: "10s" });
    await quiet();
    expect(received()).toEqual([]);
  });
});

it("a notification alone cancels no job", async () => {
  const { address } = await scene();
  const ends = deferred<void>();
  const begun = [deferred<void>(), deferred<void>()];
  const stopped: number[] = [];
  const type = job({
    type: "long",
    input: z.object({ n: z.number() }),
    async run({ input: { n }, signal }) {
      signal.addEventListener("abort", () => stopped.push(n));
      begun[n]?.resolve();
      await Promise.race([ends.promise, new Promise((_, reject) => signal.addEventListener("abort", reject))]);
    },
  });
  const hf = await holdfast({ store: address, jobs: [type], logger: false });
  onTestFinished(() => hf.close());
  const [first, second] = [await hf.enqueue(type, { n: 0 }), await hf.enqueue(type, { n: 1 })];
  hf.work();
  await Promise.all(begun.map(({ promise }) => promise));
  const channel = `holdfast_${new URL(address).searchParams.get("schema")}`;
  await server.query("SELECT pg_notify($1, $2)", [channel, `stranger cancel ${first.id}`]);
  // Received after the other one, on the same connection.
  const operator = await holdfast({ store: address, logger: false });
  onTestFinished(() => operator.close());
  await operator.cancel(second.id);
  await expect(hf.result(type, second.id, { timeout: "10s" })).rejects.toMatchObject({ state: "cancelled" });
  ends.resolve();
  await hf.result(type, first.id, { timeout: "10s" });
  expect(stopped).toEqual([1]);
});

describe("work is offered to the local worker first", () => {
  function notifier(): { notifier: Notifier; said: () => Promise<unknown[]> } {
    const said: unknown[] = [];
    const db = { run: async (_: unknown, values: readonly unknown[]) => (said.push(values[1]), []) };
    const made = new Notifier(db as unknown as Db, "channel", "me");
    return {
      notifier: made,
      async said() {
        await made.stop();
        return said;
      },
    };
  }
  const claiming = (): Promise<number> => Promise.resolve(1);

  it("others are not notified if its claim takes all", async () => {
    const { notifier: to, said } = notifier();
    to.offer();
    await to.whileClaiming(claiming, () => true);
    expect(await said()).toEqual([]);
  });

  it("others are notified if the claim leaves some or fails", async () => {
    const left = notifier();
    left.notifier.offer();
    await left.notifier.whileClaiming(claiming, () => false);
    expect(await left.said()).toEqual(["me work"]);

    const failed = notifier();
    failed.notifier.offer();
    const failing = failed.notifier.whileClaiming(
      () => Promise.reject(new Error("cut")),
      () => true,
    );
    await expect(failing).rejects.toThrow("cut");
    expect(await failed.said()).toEqual(["me work"]);

    const alone = notifier();
    alone.notifier.offer();
    expect(await alone.said()).toEqual(["me work"]);
  });

  it.each([
    ["it was enqueued", false],
    ["the next was enqueued", true],
  ])("a claim that started before %s does not count", async (_case, isNext) => {
    const { notifier: to, said } = notifier();
    const gate = deferred<number>();
    if (isNext) to.offer();
    const claiming = to.whileClaiming(
      () => gate.promise,
      () => true,
    );
    to.offer();
    gate.resolve(1);
    await claiming;
    expect(await said()).toEqual(["me work"]);
  });
});
