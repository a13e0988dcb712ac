import { InvalidOptionError, job } from "holdfast";
import { expect, it } from "vitest";
import { openClient, openStore } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const mail = job({ type: "mail", run() {} });

it.each<[string, unknown]>([
  ["nothing", undefined],
  ["the rows alone", []],
  ["how many rows there were", { rowCount: 1 }],
  ["rows that are no list", { rows: "one" }],
])("an adapter whose query gives %s is told what it must give", async (_what, answer) => {
  const { store } = await openStore(server);
  const hf = await openClient(store, mail);
  const tx = { query: async () => answer };
  const refusal = { code: "INVALID_OPTION", field: "tx.query", message: "tx.query: must give { rows }" };
  await expect(hf.enqueue(mail, undefined, { tx })).rejects.toMatchObject(refusal);
  await expect(hf.enqueue(mail, undefined, { tx, unique: "k" })).rejects.toBeInstanceOf(InvalidOptionError);
});
