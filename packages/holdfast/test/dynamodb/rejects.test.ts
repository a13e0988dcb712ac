import { onTestFinished } from "vitest";
import { rejectingInTransactionCases } from "../client/rejecting.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();

rejectingInTransactionCases("DynamoDB", async () => {
  const table = server.newTable();
  onTestFinished(() => server.drop(table));
  return { store: server.address(table), tx: {} };
});
