import { dynamodb, type DynamoStore } from "holdfast/dynamodb";
import { expect, it, onTestFinished } from "vitest";
import type { JobUpdate } from "#src/store.js";
import { add, claim, claimOne, failureOf, recordOf, settleOne, stateOf } from "#src/testing/exercise-store/builders.js";
import { openScene } from "./scene.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();

/** A store whose live index still shows a lease that has ended. `between` runs once, after a claim has read the job. */
async function lagging(): Promise<{
  worker: DynamoStore;
  operator: DynamoStore;
  between: (work: () => unknown) => void;
}> {
  const { table, store: operator } = await openScene(server, { shards: 1 });
  const client = server.client();
  let work: (() => unknown) | null = null;
  client.middlewareStack.add(
    (next, { commandName }) =>
      async (args) => {
        const result = await next(args);
        const input = args.input as { IndexName?: string; Key?: { sk: { S: string } } };
        const output = result.output as { Items?: Record<string, unknown>[] };
        if (commandName === "QueryCommand" && input.IndexName === "live") {
          for (const entry of output.Items ?? []) entry["held"] = { N: "1" };
        }
        if (commandName === "GetItemCommand" && input.Key?.sk.S === "job") {
          const now = work;
          work = null;
          await now?.();
        }
        return result;
      },
    { step: "initialize" },
  );
  const worker = dynamodb({ table, client, shards: 1 });
  onTestFinished(async () => {
    await worker.close();
    client.destroy();
  });
  return { worker, operator, between: (given) => void (work = given) };
}

it.each([0, 2_000])("a claim returns an update of %i bytes made since it read the job", async (size) => {
  const { worker, operator, between } = await lagging();
  const input = (v: string): string => JSON.stringify({ v, padding: "x".repeat(size) });
  const id = await add(operator, { input: input("old") });
  const change: JobUpdate = { id, input: input("new"), tags: ["new"] };
  between(async () => expect(await operator.update([change])).toEqual([{ status: "updated" }]));
  const job = await claimOne(worker);
  expect(job).toMatchObject({ id, input: input("new"), tags: ["new"], attempt: 1 });
  expect(await stateOf(operator, id)).toBe("claimed");
});

it("a claim counts attempts by an update made since it read the job", async () => {
  const { worker, operator, between } = await lagging();
  const id = await add(operator, { maxAttempts: 1 });
  await settleOne(operator, failureOf(await claimOne(operator), "down"));
  between(() => operator.update([{ id, maxAttempts: 3 }]));
  const jobs = [...(await claim(worker)), ...(await claim(worker))];
  expect(jobs).toMatchObject([{ id, attempt: 2, maxAttempts: 3, previous: { exhausted: false } }]);
  expect(await recordOf(operator, id)).toMatchObject({ attempt: 2, maxAttempts: 3 });
});
