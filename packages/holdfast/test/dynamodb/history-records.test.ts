import { expect, it } from "vitest";
import type { HistoryRecord } from "#src/store.js";
import { openScene } from "./scene.js";
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
  expect(await store.history(RANGE)).toEqual(all);
  expect(await store.mergeHistory({ record, replaced: all.slice(1) })).toBe(true);
  expect(await store.history(RANGE)).toEqual([record, all[0]]);
});

it("does not merge more data than a transaction holds", async () => {
  const { store } = await openScene(server);
  const all = records(6, JSON.stringify("x".repeat(250_000)));
  await store.putHistory(all);
  const record: HistoryRecord = { resolution: "minute", at: 60_000, writer: "sum", data: "{}" };
  expect(await store.mergeHistory({ record, replaced: all })).toBe(false);
  expect(await store.mergeHistory({ record, replaced: all.slice(0, 3) })).toBe(true);
  expect(await store.history(RANGE)).toHaveLength(4);
});
