import { holdfast, job, type Holdfast, type JobType } from "holdfast";
import { dynamodb, type DynamoOptions } from "holdfast/dynamodb";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { claimOne, claimRequest, finish, newJobs } from "#src/testing/exercise-store/builders.js";
import { payloadCases } from "../engine/store-cases.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();

interface Scene {
  hf: Holdfast;
  clock: FakeClock;
  store: ReturnType<typeof dynamodb>;
}

async function scene(jobs: JobType[], options: DynamoOptions = {}): Promise<Scene> {
  const table = server.newTable();
  const clock = fakeClock();
  const store = dynamodb(server.address(table), { marginMs: 0, ...options, clock });
  const hf = await holdfast({ store, jobs, clock, logger: false, random: () => 0.5 });
  onTestFinished(async () => {
    await hf.close();
    await server.drop(table);
  });
  return { hf, clock, store };
}

const summary = job({ type: "daily_summary", input: z.object({ user: z.string() }), run() {} });

describe("deduplication by job and period", () => {
  it("D-02 one job per user and day", async () => {
    const { hf, clock } = await scene([summary]);
    const ask = (user: string) =>
      hf.enqueue(summary, { user }, { unique: { key: `summary:${user}`, scope: { period: "1d" } } });
    const [first, second] = [await ask("ada"), await ask("ada")];
    expect(second).toEqual({ id: first.id, duplicate: true, replaced: false });
    expect((await ask("bob")).duplicate).toBe(false);
    await clock.advance("1d");
    expect(await ask("ada")).toMatchObject({ duplicate: false });
  });

  it("D-02 a key without its job does not block an enqueue", async () => {
    const { hf, clock, store } = await scene([summary]);
    const ask = (scope: "live" | { period: string } | { calendar: "day" }): ReturnType<Holdfast["enqueue"]> =>
      hf.enqueue(summary, { user: "ada" }, { unique: { key: "summary:ada", scope } });
    for (const scope of ["live", { period: "1d" }, { calendar: "day" }] as const) {
      const { id } = await ask(scope);
      await finish(store, await claimOne(store), "completed", { keep: false });
      expect(await hf.get(id)).toBeNull();
      const again = await ask(scope);
      expect(again.duplicate).toBe(false);
      expect(await hf.get(again.id)).toMatchObject({ state: "pending" });
      expect(await ask(scope)).toMatchObject({ id: again.id, duplicate: true });
      await hf.remove(again.id);
      await clock.advance("1h");
    }
  });

  it("D-02 one job per calendar day in its time zone", async () => {
    const { hf, clock } = await scene([summary]);
    const ask = async (): Promise<string> => {
      const scope = { calendar: "day", zone: "Europe/Berlin" } as const;
      return (await hf.enqueue(summary, { user: "ada" }, { unique: { key: "summary:ada", scope } })).id;
    };
    const ids = new Map<string, Set<string>>();
    for (let hour = 0; hour < 50; hour += 5) {
      const day = new Intl.DateTimeFormat("sv", { timeZone: "Europe/Berlin" }).format(clock.now());
      ids.set(day, (ids.get(day) ?? new Set()).add(await ask()));
      await clock.advance("5h");
    }
    expect(ids.size).toBeGreaterThan(1);
    for (const made of ids.values()) expect(made.size).toBe(1);
    expect(new Set([...ids.values()].flatMap((made) => [...made])).size).toBe(ids.size);
  });
});

it("D-03 lists jobs in each of their states", async () => {
  let fails = true;
  const type = job({
    type: "work",
    retry: { maxAttempts: 2, backoff: { base: "1m", jitter: 0 } },
    run() {
      if (fails) throw new Error("no");
    },
  });
  const { hf, clock, store } = await scene([type]);
  const stateOf = async (id: string): Promise<string | undefined> => (await hf.get(id))?.state;
  const { id } = await hf.enqueue(type);
  expect(await stateOf(id)).toBe("pending");
  const lease = await claimOne(store);
  expect(await stateOf(id)).toBe("claimed");
  await store.start([{ ...lease, startedAt: clock.now() }]);
  expect(await stateOf(id)).toBe("running");
  await clock.advance("31s");
  await hf.drain();
  expect(await stateOf(id)).toBe("dead");
  const retried = await hf.enqueue(type);
  await hf.drain();
  expect(await stateOf(retried.id)).toBe("failed");
  fails = false;
  await clock.advance("1m");
  await hf.drain();
  expect(await stateOf(retried.id)).toBe("completed");
  const gone = await hf.enqueue(type, undefined, { delay: "1h" });
  await hf.cancel(gone.id);
  expect(await stateOf(gone.id)).toBe("cancelled");
});

it("D-06 retries after 60 s × 2^(attempts−1), dead after five attempts", async () => {
  const begun: number[] = [];
  let now = (): number => 0;
  const type = job({
    type: "flaky",
    retry: { maxAttempts: 5, backoff: { base: "60s", factor: 2, max: "1d", jitter: 0 } },
    run() {
      begun.push(now());
      throw new Error("no");
    },
  });
  const { hf, clock } = await scene([type]);
  now = () => clock.now();
  const { id } = await hf.enqueue(type);
  for (let minute = 0; minute < 20; minute++) {
    await hf.drain();
    await clock.advance("1m");
  }
  expect(begun.slice(1).map((at, n) => at - (begun[n] ?? 0))).toEqual([60_000, 120_000, 240_000, 480_000]);
  expect(await hf.get(id)).toMatchObject({ state: "dead", attempt: 5, error: { message: "no" } });
  expect((await hf.get(id))?.attempts).toHaveLength(5);
});

it("raises shards while workers run without missing a job", async () => {
  const table = server.newTable();
  onTestFinished(() => server.drop(table));
  const old = dynamodb(server.address(table), { shards: 1, marginMs: 0 });
  await old.migrate();
  await old.insert(newJobs(20));
  const fresh = dynamodb(server.address(table), { shards: 6, marginMs: 0 });
  await fresh.migrate();
  await fresh.insert(newJobs(40));
  await old.insert(newJobs(20));
  onTestFinished(async () => {
    await old.close();
    await fresh.close();
  });
  const taken = new Set<string>();
  for (const store of [old, fresh, old]) {
    for (const { id } of (await store.claim(claimRequest({ limit: 40 }))).jobs) taken.add(id);
  }
  expect(taken.size).toBe(80);
  // A process with a smaller number, or without one, does not lower it.
  const silent = dynamodb(server.address(table));
  await silent.insert(newJobs(20));
  expect((await old.claim(claimRequest({ limit: 40 }))).jobs).toHaveLength(20);
  await silent.close();
  expect((await old.stats()).counts).toEqual([{ queue: "default", type: "mail", state: "claimed", count: 100 }]);
});

payloadCases("DynamoDB", async (clock) => {
  const table = server.newTable();
  onTestFinished(() => server.drop(table));
  const store = dynamodb(server.address(table), { marginMs: 0, clock });
  await store.migrate();
  return store;
});
