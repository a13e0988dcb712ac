import { join } from "node:path";
import { holdfast, job, type Holdfast, type JobType } from "holdfast";
import { dynamodb } from "holdfast/dynamodb";
import { postgres } from "holdfast/postgres";
import { sqlite } from "holdfast/sqlite";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { errorOf } from "../client/scene.js";
import { dynamoServer, NO_SERVER, REGION } from "../dynamodb/server.js";
import { addressOf, ownSchema } from "../postgres/scene.js";
import { postgresServer } from "../postgres/server.js";
import { deferred, folder, eventsOf } from "./scene.js";

const server = postgresServer();
const dynamo = dynamoServer({ forSome: true });

type Open = (clock: FakeClock, jobs: JobType[]) => Promise<Holdfast>;
const STORES: [name: string, open: Open][] = [
  [
    "a SQLite file",
    async (clock, jobs) => holdfast({ store: `sqlite:${join(await folder(), "jobs.db")}`, jobs, clock, logger: false }),
  ],
  [
    "PostgreSQL",
    (clock, jobs) => holdfast({ store: addressOf(server.url(), ownSchema(server)), jobs, clock, logger: false }),
  ],
  [
    "DynamoDB",
    async (clock, jobs) => {
      const table = dynamo.newTable();
      onTestFinished(() => dynamo.drop(table));
      const store = dynamodb({ table, region: REGION, endpoint: dynamo.endpoint(), clock });
      return holdfast({ store, jobs, clock, logger: false });
    },
  ],
];

/** Closes a client with a fake clock. */
async function closed(hf: Holdfast, clock: FakeClock): Promise<void> {
  const closing = hf.close();
  await clock.advance("2m");
  await closing;
}

describe.each(STORES)("a fake clock on %s", (name, open) => {
  it.skipIf(name === "DynamoDB" && NO_SERVER !== null)("keeps the lease of a long handler", async () => {
    const clock = fakeClock();
    const gate = deferred();
    const long = job({ type: "long", run: () => gate.promise });
    const hf = await open(clock, [long]);
    onTestFinished(() => closed(hf, clock));
    const lost = eventsOf(hf, "lost");
    const outages = eventsOf(hf, "outage");
    const { id } = await hf.enqueue(long);
    hf.work({ lease: "3s", poll: "5s" });
    await clock.advance("30s");
    expect(await hf.get(id)).toMatchObject({ state: "running", attempt: 1, fence: 1 });
    gate.resolve();
    await clock.settle();
    expect([(await hf.get(id))?.state, lost, outages]).toEqual(["completed", [], []]);
  });

  it.skipIf(name === "DynamoDB" && NO_SERVER !== null)("has run all due jobs when it stops", async () => {
    const clock = fakeClock();
    const ranAt: number[] = [];
    const retried = job({
      type: "retried",
      retry: { maxAttempts: 3, backoff: { base: "1m", jitter: 0 } },
      run({ job: { attempt } }) {
        ranAt.push(clock.monotonic());
        if (attempt < 3) throw new Error("not yet");
      },
    });
    const hf = await open(clock, [retried]);
    onTestFinished(() => closed(hf, clock));
    const { id } = await hf.enqueue(retried, {}, { delay: "1m" });
    hf.work({ poll: "10s" });
    await clock.advance("5m");
    expect((await hf.get(id))?.state).toBe("completed");
    // After each delay, at the next poll.
    const gaps = ranAt.map((at, index) => at - (ranAt[index - 1] ?? 0));
    for (const [index, delay] of [60_000, 60_000, 120_000].entries()) {
      expect(gaps[index]).toBeGreaterThanOrEqual(delay);
      expect(gaps[index]).toBeLessThanOrEqual(delay + 10_000);
    }
  });
});

describe("a fake clock that cannot settle", () => {
  it("throws", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const clock = fakeClock();
    clock.waitFor?.(new Promise(() => {}));
    const refused = errorOf(clock.advance("1s"));
    while (vi.getTimerCount() === 0) await new Promise((resolve) => setImmediate(resolve));
    vi.advanceTimersByTime(10_000);
    expect(await refused).toMatchObject({
      code: "WAIT_TIMEOUT",
      message: expect.stringContaining("timed out after 10 s of real time waiting for the store") as string,
    });
  });

  it("does not wait for a failed call", async () => {
    const clock = fakeClock();
    clock.waitFor?.(Promise.reject(new Error("no")));
    await clock.advance("1s");
    expect(clock.monotonic()).toBe(1_000);
  });
});

describe("a store opened by the test", () => {
  it.each([
    ["sqlite", async (clock: FakeClock) => sqlite(join(await folder(), "jobs.db"), { clock })],
    ["postgres", async (clock: FakeClock) => postgres(addressOf(server.url(), ownSchema(server)), { clock })],
  ] as const)("registers its calls with the clock: %s", async (_, open) => {
    const clock = fakeClock();
    const store = await open(clock);
    onTestFinished(() => store.close());
    let isDone = false;
    void store.migrate().then(() => (isDone = true));
    await clock.settle();
    expect(isDone).toBe(true);
  });
});
