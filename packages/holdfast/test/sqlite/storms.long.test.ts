import { describe, it } from "vitest";
import { exerciseStore } from "#src/testing/exercise-store/index.js";
import { ON_FILE } from "../sqlite-file.js";
import { STORM_ROUNDS, STORM_SUBJECTS } from "../storms.js";

describe.each(STORM_ROUNDS)("round %i", () => {
  exerciseStore({ describe, it }, { name: "SQLite on a file", ...ON_FILE, subjects: STORM_SUBJECTS });
});
