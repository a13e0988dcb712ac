import { onTestFinished } from "vitest";
import { rejectingCases, rejectingInTransactionCases } from "../client/rejecting.js";
import { addressOf, ownSchema } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

rejectingCases("PostgreSQL", async () => addressOf(server.url(), ownSchema(server)));

rejectingInTransactionCases("PostgreSQL", async () => {
  const tx = await server.client();
  onTestFinished(() => tx.end());
  await tx.query("BEGIN");
  return { store: addressOf(server.url(), ownSchema(server)), tx };
});
