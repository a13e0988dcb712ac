import { DeleteItemCommand, QueryCommand } from "@aws-sdk/client-dynamodb";
import { job } from "holdfast";
import { expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { openClient, openScene } from "./scene.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();

/** Deletes the item that holds a job's large input. */
async function loseInput(table: string, id: string): Promise<void> {
  const client = server.client();
  onTestFinished(() => client.destroy());
  const { Items = [] } = await client.send(
    new QueryCommand({
      TableName: table,
      KeyConditionExpression: "pk = :pk AND begins_with(sk, :input)",
      ExpressionAttributeValues: { ":pk": { S: `job#${id}` }, ":input": { S: "input#" } },
    }),
  );
  expect(Items).toHaveLength(1);
  for (const { pk, sk } of Items as { pk: { S: string }; sk: { S: string } }[])
    await client.send(new DeleteItemCommand({ TableName: table, Key: { pk, sk } }));
}

it("dead-letters a job whose input is missing", async () => {
  const { table, again } = await openScene(server);
  const ran = new Set<unknown>();
  // The schema accepts anything, so only the store can detect the missing input.
  const text = job({ type: "text", input: z.any(), run: ({ input }) => void ran.add(input) });
  const hf = await openClient({ store: again(), jobs: [text] });
  const [first, damaged, last] = await Promise.all(
    ["a", "b", "c"].map(async (letter) => (await hf.enqueue(text, letter.repeat(600))).id),
  );
  await loseInput(table, damaged ?? "");
  await hf.drain();
  expect(await hf.get(damaged ?? "")).toMatchObject({
    state: "dead",
    input: null,
    error: { code: "INVALID_INPUT", message: "input of text is missing in the store" },
  });
  for (const id of [first, last]) expect(await hf.get(id ?? "")).toMatchObject({ state: "completed" });
  expect(ran).toEqual(new Set(["a".repeat(600), "c".repeat(600)]));
});
