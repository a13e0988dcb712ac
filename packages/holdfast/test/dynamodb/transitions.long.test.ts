import { UpdateItemCommand } from "@aws-sdk/client-dynamodb";
import { setTimeout as sleep } from "node:timers/promises";
import { dynamodb, type DynamoOptions, type DynamoStore } from "holdfast/dynamodb";
import type { Store, TransitionRecord } from "holdfast/store";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import type { State } from "#src/job/state.js";
import {
  add,
  addAll,
  claim,
  failureOf,
  finish,
  MINUTE,
  newJobs,
  outcomeOf,
  SECOND,
} from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import type { SentRequest } from "./proxy.js";
import { Recorder } from "./recorder.js";
import { openScene, type Scene } from "./scene.js";
import { dynamoServer } from "./server.js";

/** Transitions on the real clock, as processes record and read them. The conformance suite covers what they contain. */
const server = dynamoServer();

/** Longer than the five seconds until every process has noticed that jobs are followed. */
const LIVE = { timeout: 60_000 };
const HOUR = 60 * MINUTE;

/** Reads pages from a cursor on. */
class Reader {
  readonly seen: TransitionRecord[] = [];
  readonly #store: Store;
  readonly #limit: number;
  cursor: string;

  constructor(store: Store, cursor: string, limit = 100) {
    this.#store = store;
    this.cursor = cursor;
    this.#limit = limit;
  }

  async poll(): Promise<void> {
    const page = await this.#store.transitions(this.cursor, this.#limit);
    expect(page).not.toBeNull();
    if (page === null) return;
    this.cursor = page.cursor;
    this.seen.push(...page.transitions);
  }

  async until(count: number): Promise<void> {
    await until(`${count} transitions`, async () => {
      await this.poll();
      return this.seen.length >= count;
    });
    // Nothing is returned twice.
    for (let polls = 0; polls < 3; polls++) await this.poll();
    expect(this.seen).toHaveLength(count);
  }

  states(): Record<string, State[]> {
    const states: Record<string, State[]> = {};
    for (const { id, to } of this.seen) (states[id] ??= []).push(to);
    return states;
  }
}

/** A scene whose jobs are followed, without the wait of the first follower. Its config says so before any process reads it. */
async function followed(options: DynamoOptions = {}, state: Record<string, number> = {}): Promise<Scene> {
  const scene = await openScene(server, options);
  const client = server.client();
  const until = Date.now() + HOUR;
  const set = (pk: string, fields: Record<string, number>): Promise<unknown> =>
    client.send(
      new UpdateItemCommand({
        TableName: scene.table,
        Key: { pk: { S: pk }, sk: { S: pk } },
        AttributeUpdates: Object.fromEntries(
          Object.entries(fields).map(([name, value]) => [name, { Action: "PUT", Value: { N: String(value) } }]),
        ),
      }),
    );
  await set("config", { follow_until: until });
  await set("following", { epoch: 1, until, ...state });
  client.destroy();
  return scene;
}

const toBatch = ({ operation, text }: SentRequest): boolean =>
  operation === "PutItem" && text.includes('"transitions#');
const toNumbers = ({ operation, text }: SentRequest): boolean =>
  operation === "UpdateItem" && text.includes('"following"') && text.includes("#number");

/** The states of each job; sorted unless their order matters. */
function statesOf(states: Readonly<Record<string, readonly State[]>>, inOrder: boolean): Record<string, State[]> {
  return Object.fromEntries(Object.entries(states).map(([id, each]) => [id, inOrder ? [...each] : each.toSorted()]));
}

describe("several processes", () => {
  it.each([
    ["without faults", 0],
    ["with 20 % of the responses to writes of transitions lost", 0.2],
  ])("%s: every transition is returned once", LIVE, async (_what, share) => {
    const { again, direct, proxy } = await followed({ shards: 2 });
    const [first, second, third, watcher] = [again(), again(), again(), direct()];
    const cursor = await watcher.recordTransitions(MINUTE);
    if (share > 0) proxy.loseResponses(share, (sent) => toBatch(sent) || toNumbers(sent));
    const readers = [new Reader(watcher, cursor, 10), new Reader(direct(), cursor, 1_000)];
    const expected: Record<string, State[]> = {};
    const note = (id: string, ...states: State[]): void => void (expected[id] ??= []).push(...states);
    let left = 50;
    const enqueue = async (): Promise<void> => {
      for (let round = 0; round < 5; round++) {
        for (const id of await addAll(first, newJobs(10))) (expected[id] ??= []).unshift("pending");
        await sleep(50);
      }
    };
    const work = async (store: DynamoStore): Promise<void> => {
      while (left > 0) {
        const jobs = await claim(store, { limit: 7 });
        if (jobs.length === 0) await sleep(20);
        for (const { id } of jobs) note(id, "claimed");
        await store.start(jobs.map((job) => ({ ...job, startedAt: 1 })));
        const outcomes = jobs.map((job) =>
          job.attempt === 1 && Math.random() < 0.3 ? failureOf(job, "no") : outcomeOf(job, "completed"),
        );
        for (const { id, to } of outcomes) note(id, "running", to);
        await store.settle(outcomes);
        left -= outcomes.filter(({ to }) => to === "completed").length;
      }
    };
    const poll = async (reader: Reader): Promise<void> => {
      while (left > 0) {
        await reader.poll();
        await sleep(20);
      }
    };
    await Promise.all([enqueue(), work(second), work(third), ...readers.map(poll)]);
    const count = Object.values(expected).flat().length;
    for (const reader of readers) {
      await reader.until(count);
      // In order, unless a response was lost: then a batch of another process may be later than the reader waits.
      const inOrder = share === 0;
      expect(statesOf(reader.states(), inOrder)).toEqual(statesOf(expected, inOrder));
    }
  });

  it("waits until processes that only enqueue have noticed", LIVE, async () => {
    const { again, direct } = await openScene(server);
    const enqueuer = again();
    const early = await add(enqueuer);
    const watcher = direct();
    const started = performance.now();
    const cursor = await watcher.recordTransitions(MINUTE);
    expect(performance.now() - started).toBeGreaterThan(5_000);
    const late = await add(enqueuer);
    expect(late).not.toBe(early);
    const reader = new Reader(watcher, cursor);
    await until("the job", async () => {
      await reader.poll();
      return reader.seen.some(({ id }) => id === late);
    });
    // Another follower, of another process, does not wait.
    const again2 = performance.now();
    await direct().recordTransitions(MINUTE);
    expect(performance.now() - again2).toBeLessThan(2_000);
  });

  it("returns a job's transitions in order if clocks differ", LIVE, async () => {
    const { again, direct, proxy } = await followed();
    proxy.shiftTime(3 * SECOND);
    const [ahead, other] = [again(), direct()];
    const cursor = await other.recordTransitions(MINUTE);
    const ids = await addAll(ahead, newJobs(5));
    await other.cancel(ids);
    await other.retry(ids);
    const reader = new Reader(other, cursor, 1);
    await reader.until(15);
    expect(reader.states()).toEqual(Object.fromEntries(ids.map((id) => [id, ["pending", "cancelled", "pending"]])));
  });
});

describe("a process that cannot write", () => {
  it("is skipped, and its transitions are returned later", LIVE, async () => {
    const { again, direct, proxy } = await followed();
    const [slow, other] = [again(), direct()];
    const cursor = await other.recordTransitions(MINUTE);
    const outage = proxy.refuse("throttled", 1, toBatch);
    const held = await addAll(slow, newJobs(3));
    await until("the batch to have taken a number", () => outage.count > 0);
    const later = await add(other);
    const reader = new Reader(other, cursor);
    await reader.until(1);
    expect(reader.seen.map(({ id }) => id)).toEqual([later]);
    outage.end();
    await reader.until(4);
    expect(
      reader.seen
        .slice(1)
        .map(({ id }) => id)
        .toSorted(),
    ).toEqual(held.toSorted());
    const fromTheStart = new Reader(other, cursor, 2);
    await fromTheStart.until(4);
  });

  it("is skipped with all the numbers that it took", LIVE, async () => {
    const { direct } = await followed({}, { number: 30 });
    const store = direct();
    const cursor = (await store.recordTransitions(MINUTE)).replace("1.30.30.", "1.0.0.");
    const id = await add(store);
    const reader = new Reader(store, cursor);
    await reader.until(1);
    expect(reader.seen).toMatchObject([{ id }]);
  });

  it("writes what is left when it closes", LIVE, async () => {
    const { direct } = await followed();
    const [closing, other] = [direct(), direct()];
    const cursor = await other.recordTransitions(MINUTE);
    const ids = await addAll(closing, newJobs(3));
    await closing.close();
    const reader = new Reader(other, cursor);
    await reader.until(3);
    expect(reader.seen.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
  });

  it("does not delay closing", async () => {
    const { direct } = await openScene(server);
    const store = direct();
    const recording = store.recordTransitions(MINUTE).catch((error: unknown) => error);
    await sleep(200);
    const started = performance.now();
    await store.close();
    expect(performance.now() - started).toBeLessThan(2_000);
    expect(await recording).toMatchObject({ code: "CLOSED" });
  });
});

describe("without a follower", () => {
  /** A store whose requests are recorded. */
  async function recorded(options: object = {}): Promise<{ store: DynamoStore; recorder: Recorder }> {
    const { table } = await openScene(server, options);
    const recorder = new Recorder();
    const client = recorder.watch(server.client());
    const store = dynamodb({ client, table, ...options });
    onTestFinished(async () => {
      await store.close();
      client.destroy();
    });
    return { store, recorder };
  }
  const written = ({ requests }: Recorder): string[] =>
    requests.map(({ input }) => JSON.stringify(input)).filter((text) => /"following"|"transitions#/.test(text));

  it("nothing is written or read for followers", LIVE, async () => {
    const { store, recorder } = await recorded();
    await add(store);
    await claim(store);
    recorder.requests.length = 0;
    await addAll(store, newJobs(20));
    const jobs = await claim(store, { limit: 20 });
    await store.start(jobs.map((job) => ({ ...job, startedAt: 1 })));
    for (const job of jobs) await finish(store, job, "completed", { keepMs: MINUTE });
    await store.close();
    expect(written(recorder)).toEqual([]);
    const { length: puts } = recorder.requests.filter(({ operation }) => operation === "PutItem");
    expect(puts).toBe(20);
    // One for each claim.
    const { length: gets } = recorder.requests.filter(({ operation }) => operation === "GetItem");
    expect(gets).toBe(1);
  });

  it("a process that only enqueues reads the config every 5 s at most", LIVE, async () => {
    const { store, recorder } = await recorded();
    await add(store);
    recorder.requests.length = 0;
    const from = performance.now();
    while (performance.now() - from < 6 * SECOND) {
      await add(store);
      await sleep(100);
    }
    const { length: gets } = recorder.requests.filter(({ operation }) => operation === "GetItem");
    expect(gets).toBeGreaterThanOrEqual(1);
    expect(gets).toBeLessThanOrEqual(2);
    expect(written(recorder)).toEqual([]);
  });

  it("nothing is written after the recording has ended", async () => {
    const clock = fakeClock();
    const { store, recorder } = await recorded({ clock });
    const cursor = await store.recordTransitions(MINUTE);
    await add(store);
    expect((await store.transitions(cursor, 10))?.transitions).toHaveLength(1);
    await clock.advance(2 * MINUTE);
    recorder.requests.length = 0;
    await add(store);
    expect(written(recorder)).toEqual([]);
    expect(await store.transitions(cursor, 10)).toBeNull();
  });
});

it("of many followers, one writes", async () => {
  const { direct, table } = await followed();
  const requests = (): number => recorder.requests.filter(({ operation }) => operation === "UpdateItem").length;
  const recorder = new Recorder();
  const client = recorder.watch(server.client());
  const store = dynamodb({ client, table });
  onTestFinished(async () => {
    await store.close();
    client.destroy();
  });
  // Longer than until now: the config and the state of the recording are written.
  await store.recordTransitions(2 * HOUR);
  expect(requests()).toBe(2);
  for (let follower = 0; follower < 20; follower++) await store.recordTransitions(2 * HOUR);
  expect(requests()).toBe(2);
  expect(await direct().recordTransitions(MINUTE)).toMatch(/^1\./);
});

describe("a cursor", () => {
  it("expires after 12 minutes", LIVE, async () => {
    const { direct } = await followed();
    const store = direct();
    const cursor = await store.recordTransitions(MINUTE);
    const [at, ...position] = cursor.split(".").toReversed();
    const ofAge = (ms: number): string => [Number(at) - ms, ...position].toReversed().join(".");
    expect(await store.transitions(ofAge(11 * MINUTE), 10)).toMatchObject({ transitions: [] });
    expect(await store.transitions(ofAge(13 * MINUTE), 10)).toBeNull();
  });

  it("takes few requests for many transitions", async () => {
    const clock = fakeClock();
    const { direct, table } = await openScene(server, { clock, shards: 1 });
    const cursor = await direct().recordTransitions(MINUTE);
    const ids = await addAll(direct(), newJobs(400));
    const recorder = new Recorder();
    const client = recorder.watch(server.client());
    const store = dynamodb({ client, table, clock });
    onTestFinished(async () => {
      await store.close();
      client.destroy();
    });
    const reader = new Reader(store, cursor, 1_000);
    await reader.poll();
    expect(reader.seen.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
    expect(recorder.requests.length).toBeLessThanOrEqual(3);
  });
});
