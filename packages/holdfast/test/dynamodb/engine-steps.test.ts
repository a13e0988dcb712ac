import { dynamodb } from "holdfast/dynamodb";
import { describe, onTestFinished } from "vitest";
import { stepStoreCases } from "../engine/step-cases.js";
import { dynamoServer, NO_SERVER, REGION } from "./server.js";

const server = dynamoServer();

describe.skipIf(NO_SERVER !== null)("on DynamoDB", () => {
  stepStoreCases("DynamoDB", async (clock) => {
    const table = server.newTable();
    onTestFinished(() => server.drop(table));
    const store = dynamodb({ table, region: REGION, endpoint: server.endpoint(), clock });
    await store.migrate();
    return store;
  });
});
