import { dynamodb } from "holdfast/dynamodb";
import { fakeClock } from "holdfast/testing";
import { expect, it, onTestFinished } from "vitest";
import { Counts } from "#src/history/counted.js";
import type { HistoryRecord, HistoryResolution } from "#src/store.js";
import { Meter } from "./meter.js";
import { openClient, openScene } from "./scene.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();
const RANGE = { resolution: "minute", from: 0, to: 120_000, limit: 1_000, after: null } as const;

function records(count: number, data = "1"): HistoryRecord[] {
  return Array.from({ length: count }, (_, nth) => {
    return { resolution: "minute", at: 60_000, writer: `w${String(nth).padStart(3, "0")}`, data };
  });
}

it("merges as many records as a transaction has writes", async () => {
  const { store } = await openScene(server);
  const all = records(100);
  await store.putHistory(all);
  const record: HistoryRecord = { resolution: "minute", at: 60_000, writer: "sum", data: "100" };
  expect(await store.mergeHistory({ record, replaced: all })).toBe(false);
  expect((await store.history(RANGE)).records).toEqual(all);
  expect(await store.mergeHistory({ record, replaced: all.slice(1) })).toBe(true);
  expect((await store.history(RANGE)).records).toEqual([record, all[0]]);
});

it("does not merge more data than a transaction holds", async () => {
  const { store } = await openScene(server);
  const all = records(6, JSON.stringify("x".repeat(250_000)));
  await store.putHistory(all);
  const record: HistoryRecord = { resolution: "minute", at: 60_000, writer: "sum", data: "{}" };
  expect(await store.mergeHistory({ record, replaced: all })).toBe(false);
  expect(await store.mergeHistory({ record, replaced: all.slice(0, 3) })).toBe(true);
  expect((await store.history(RANGE)).records).toHaveLength(4);
});

/** What a process counts in a minute or hour: five types in five queues, with wait and run times of all sizes. */
function countsOf(jobs: number): string {
  const counts = new Counts();
  for (let pair = 0; pair < 5; pair++) {
    const counted = counts.of(`queue-${pair}`, `type.of-${pair}`);
    counted.enqueued = counted.completed = jobs;
    for (let n = 0; n < jobs; n++) {
      counted.wait.add(1.7 ** (n % 20));
      counted.run.add(1.5 ** (n % 20));
    }
  }
  return counts.toText();
}

it("a day of minutes and 30 days of hours take at most ten requests", async () => {
  const HOUR = 3_600_000;
  const table = server.newTable();
  const clock = fakeClock();
  const meter = new Meter();
  const store = dynamodb({ client: meter.watch(server.client()), table, shards: 1, clock });
  onTestFinished(() => server.drop(table));
  await store.migrate();
  const now = clock.now();
  const day = now - (now % HOUR) - 24 * HOUR;
  const data = countsOf(300);
  const put = (resolution: HistoryResolution, times: readonly number[]): Promise<void> =>
    store.putHistory(times.map((at) => ({ resolution, at, writer: "merged", data })));
  await put(
    "minute",
    Array.from({ length: 24 * 60 }, (_, n) => day + n * 60_000),
  );
  // Without the hours of four nights' jobs, and the last two, which maintenance has not added up yet.
  await put(
    "hour",
    Array.from({ length: 718 }, (_, n) => day - 29 * 24 * HOUR + n * HOUR).filter(
      (_, n) => ![3, 6, 9, 12].includes(n - 694),
    ),
  );
  const hf = await openClient({ store, clock });
  const sent = async (options: object, points: number): Promise<number> => {
    meter.reset();
    const { series } = await hf.history(options);
    expect(series[0]?.points.filter(({ completed }) => completed > 0).length).toBeGreaterThanOrEqual(points);
    return [...meter.requests.values()].reduce((sum, each) => sum + each, 0);
  };
  expect(await sent({ from: now - 24 * HOUR }, 24 * 60 - 60)).toBeLessThanOrEqual(10);
  expect(await sent({ from: now - 30 * 24 * HOUR, resolution: "hour" }, 719)).toBeLessThanOrEqual(10);
});
