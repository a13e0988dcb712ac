import { dynamodb, type DynamoStore } from "holdfast/dynamodb";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { add, claimOne, finish, MINUTE } from "#src/testing/exercise-store/builders.js";
import {
  childOf,
  eventOf,
  keepStep,
  newChild,
  park,
  parkedFor,
  stepOf,
  waitFor,
} from "#src/testing/exercise-store/step-builders.js";
import { Meter } from "./meter.js";
import { dynamoServer } from "./server.js";

// The units of steps in docs/guides/dynamodb-costs.md.

const server = dynamoServer();

/** Write units of the table and of each index; requests, without those for the shared config. */
interface Cost {
  writes: Record<string, number>;
  requests: number;
}

interface Metered {
  meter: Meter;
  store: DynamoStore;
  clock: FakeClock;
  costOf: (work: () => Promise<unknown>) => Promise<Cost>;
}

async function metered(): Promise<Metered> {
  const table = server.newTable();
  const meter = new Meter();
  const clock = fakeClock();
  const client = meter.watch(server.client());
  let reads = 0;
  client.middlewareStack.add(
    (next) => async (args) => {
      if (JSON.stringify(args.input).includes('"pk":{"S":"config"}')) reads++;
      return next(args);
    },
    { step: "initialize" },
  );
  const configReads = (): number => {
    const count = reads;
    reads = 0;
    return count;
  };
  const store = dynamodb({ client, table, clock, shards: 1, marginMs: 0 });
  onTestFinished(async () => {
    await store.close();
    client.destroy();
    await server.drop(table);
  });
  await store.migrate();
  // The first wait of a table registers that it has waits.
  await parkedFor(store, "first");
  return {
    meter,
    store,
    clock,
    async costOf(work) {
      meter.reset();
      configReads();
      await work();
      const writes: Record<string, number> = {
        ...Object.fromEntries(meter.writes),
        ...(meter.lost > 0 && { lost: meter.lost }),
      };
      const { charged, reported } = meter.transacted;
      if (charged > 0) writes["table"] = (writes["table"] ?? 0) - reported + charged;
      return { writes, requests: sum(meter.requests.values()) - configReads() };
    },
  };
}

function sum(values: Iterable<number>): number {
  return [...values].reduce((total, value) => total + value, 0);
}

describe("write units", () => {
  it("of a step: 4, and 2 for each further one of the call", async () => {
    const { store, costOf } = await metered();
    await add(store);
    const lease = await claimOne(store, { queues: ["default"] });
    expect(await costOf(() => keepStep(store, stepOf(lease, "one")))).toEqual({ writes: { table: 4 }, requests: 1 });
    const more = [stepOf(lease, "two", { order: 1 }), stepOf(lease, "three", { order: 2 })];
    expect(await costOf(() => store.saveSteps(more))).toEqual({ writes: { table: 6 }, requests: 1 });
    const found = stepOf(lease, "one");
    // The caller repeats the call: a transaction of two writes fails.
    expect(await costOf(() => store.saveSteps([found]))).toEqual({ writes: { lost: 4 }, requests: 2 });
  });

  it("of a wait: 8, and 3 to park; of a wake: 2 for the claim", async () => {
    const { store, costOf } = await metered();
    await add(store);
    const lease = await claimOne(store, { queues: ["default"] });
    // The event is read first.
    expect(await costOf(() => keepStep(store, waitFor(lease, "paid")))).toEqual({ writes: { table: 8 }, requests: 2 });
    expect((await costOf(() => park(store, lease))).writes).toEqual({ table: 1, live: 2 });
    await store.emit([eventOf("paid")]);
    expect((await costOf(() => claimOne(store, { queues: ["default"] }))).writes).toEqual({ table: 1, live: 1 });
  });

  it("of an emit: 1, with waiters 4 and 5 for each of them", async () => {
    const { store, costOf } = await metered();
    expect(await costOf(() => store.emit([eventOf("none")]))).toEqual({ writes: { table: 1 }, requests: 2 });
    expect(await costOf(() => store.emit([eventOf("none")]))).toEqual({ writes: {}, requests: 1 });
    for (const count of [1, 3]) {
      const event = `for ${count}`;
      for (let nth = 0; nth < count; nth++) await parkedFor(store, event);
      const { writes, requests } = await costOf(() => store.emit([eventOf(event)]));
      expect(writes).toEqual({ table: 2 + 3 * count, live: 2 * count, expiring: 2 });
      expect(requests).toBe(4 + 3 * count);
    }
    // A job that is leased: the first try of the wake fails.
    await add(store);
    await keepStep(store, waitFor(await claimOne(store, { queues: ["default"] }), "leased"));
    const { writes } = await costOf(() => store.emit([eventOf("leased")]));
    expect(writes).toEqual({ table: 2 + 3, expiring: 2, lost: 1 });
  });

  it("of a child: 8 instead of 1 in the table, and 8 more at its end", async () => {
    const { store, costOf } = await metered();
    await add(store, { queue: "parents" });
    const parent = await claimOne(store, { queues: ["parents"] });
    await keepStep(store, childOf(parent, newChild(), { name: "before" }));
    await finish(store, await claimOne(store, { queues: ["children"] }));
    const spawn = await costOf(() => keepStep(store, childOf(parent, newChild())));
    const child = await claimOne(store, { queues: ["children"] });
    // In a transaction, the emulator charges index entries like the table: twice.
    expect(spawn).toEqual({ writes: { table: 8, live: 2, listed: 2 }, requests: 1 });
    await park(store, parent);
    const { writes } = await costOf(() => finish(store, child, "completed", { keepMs: 600 * MINUTE }));
    // A completion: 1 and 1. The note: 1 and 2. The step, its mark and the parent, which moves in the index.
    expect(writes).toEqual({ table: 1 + 1 + 3, live: 1 + 2, expiring: 2, counts: 2 });
  });

  it("of a set: 6 for each child in the table, and 3 fewer at its end but for the last", async () => {
    const { store, costOf } = await metered();
    await add(store, { queue: "parents" });
    const parent = await claimOne(store, { queues: ["parents"] });
    await keepStep(store, childOf(parent, newChild(), { name: "before" }));
    await finish(store, await claimOne(store, { queues: ["children"] }));
    const writes = Array.from({ length: 10 }, (_, member) => childOf(parent, newChild(), { name: "all", member }));
    expect((await costOf(() => store.saveSteps(writes))).writes["table"]).toBe(2 + 6 * 10);
    await park(store, parent);
    const child = await claimOne(store, { queues: ["children"] });
    const end = await costOf(() => finish(store, child, "completed", { keepMs: 600 * MINUTE }));
    expect(end.writes).toEqual({ table: 1 + 1 + 2, live: 1, expiring: 2, counts: 2 });
  });

  it("of repairWaits: none, half a read unit for each shard", async () => {
    const { store, costOf } = await metered();
    expect(await costOf(() => store.repairWaits(100))).toEqual({ writes: {}, requests: 1 });
  });
});
