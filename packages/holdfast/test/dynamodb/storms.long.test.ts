import { describe, it } from "vitest";
import { exerciseStore } from "#src/testing/exercise-store/index.js";
import { FEW_STORM_ROUNDS, STORM_SUBJECTS } from "../storms.js";
import { onDynamoDb } from "./conformance-scene.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();

describe.each(FEW_STORM_ROUNDS)("round %i", () => {
  exerciseStore({ describe, it }, { name: "DynamoDB", many: 400, ...onDynamoDb(server, 1), subjects: STORM_SUBJECTS });
});
