import { describe, it } from "vitest";
import { exerciseStore } from "#src/testing/exercise-store/index.js";
import { STORM_ROUNDS, STORM_SUBJECTS } from "../storms.js";
import { onPostgres } from "./conformance-scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

describe.each(STORM_ROUNDS)("round %i", () => {
  exerciseStore({ describe, it }, { name: "PostgreSQL", ...onPostgres(server), subjects: STORM_SUBJECTS });
});
