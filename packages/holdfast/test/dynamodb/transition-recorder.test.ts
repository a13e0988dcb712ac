import { expect, it } from "vitest";
import type { SharedConfig } from "#src/stores/dynamodb/connection/config.js";
import type { Table } from "#src/stores/dynamodb/connection/table.js";
import { TransitionRecorder } from "#src/stores/dynamodb/transitions/recorder.js";

const JOB = { id: "018f4d2e-7b3a-7c11-8a55-00000000000a", type: "mail", queue: "default", fence: 0 };

/** A recorder on a table whose writes fail until `recover`. Returns the update expressions that reach the table. */
function failing(): { recorder: TransitionRecorder; updates: string[]; puts: () => number; recover: () => void } {
  const updates: string[] = [];
  let isAvailable = false;
  let puts = 0;
  const table = {
    async update(_key: object, change: { updateInput: { UpdateExpression: string } }) {
      if (!isAvailable) throw new Error("no DynamoDB");
      updates.push(change.updateInput.UpdateExpression);
      return { done: true, old: null };
    },
    async put() {
      puts++;
      return { done: true, old: null };
    },
  } as unknown as Table;
  const config = { known: { config: { followUntil: Number.MAX_SAFE_INTEGER }, ageMs: 0 } } as unknown as SharedConfig;
  const recorder = new TransitionRecorder(table, { config, time: () => 1_000, isLive: true });
  return { recorder, updates, puts: () => puts, recover: () => void (isAvailable = true) };
}

it("keeps transitions during an outage and writes them once", async () => {
  const { recorder, updates, puts, recover } = failing();
  for (let nth = 0; nth < 500; nth++) recorder.add(JOB, "pending", 1_000);
  await recorder.flush();
  expect(updates).toEqual([]);
  recover();
  await recorder.stop();
  expect(updates).toHaveLength(1);
  expect(puts()).toBe(2);
});

it("expires cursors if an outage was too long for its memory", async () => {
  const { recorder, updates, puts, recover } = failing();
  for (let nth = 0; nth < 100_001; nth++) recorder.add(JOB, "pending", 1_000);
  await recorder.flush();
  recover();
  await recorder.stop();
  // The one after those that were dropped.
  expect(puts()).toBe(1);
  expect(updates).toEqual([expect.stringContaining("#epoch"), expect.stringContaining("#number")]);
});
