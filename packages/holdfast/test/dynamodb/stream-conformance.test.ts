import { describe, it } from "vitest";
import { exerciseStore } from "#src/testing/exercise-store/index.js";
import { onDynamoDb } from "./conformance-scene.js";
import { dynamoServer } from "./server.js";

/** Following jobs by the table's stream. */
const server = dynamoServer();

exerciseStore(
  { describe, it },
  { name: "DynamoDB with a stream", many: 200, subjects: ["transitions"], ...onDynamoDb(server, 2, "&stream=true") },
);
