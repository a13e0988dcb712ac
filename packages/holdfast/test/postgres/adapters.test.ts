import { InvalidOptionError, job } from "holdfast";
import { expect, it } from "vitest";
import { openClient, openStore } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const mail = job({ type: "mail", run() {} });

it.each<[string, unknown]>([
  ["nothing", undefined],
  ["only the rows", []],
  ["the number of rows", { rowCount: 1 }],
  ["rows that are not an array", { rows: "one" }],
])("rejects an adapter whose query resolves to %s", async (_case, result) => {
  const { store } = await openStore(server);
  const hf = await openClient(store, mail);
  const tx = { query: async () => result };
  const refusal = { code: "INVALID_OPTION", field: "tx.query", message: "tx.query must resolve to { rows }" };
  await expect(hf.enqueue(mail, undefined, { tx })).rejects.toMatchObject(refusal);
  await expect(hf.enqueue(mail, undefined, { tx, unique: "k" })).rejects.toBeInstanceOf(InvalidOptionError);
});
