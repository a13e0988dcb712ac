import { describe, it } from "vitest";
import { compareWithModel } from "#src/testing/model-run.js";
import { inFile, inMemory } from "./model-scene.js";

const RUNS = 3_000;
const TIMEOUT_MS = 60_000 + 200 * RUNS;
const seed = process.env["HOLDFAST_SEED"];

describe.concurrent("SQLite", () => {
  it(
    `matches the reference model in ${RUNS} random histories`,
    () => compareWithModel(inMemory, { runs: RUNS, seed }),
    TIMEOUT_MS,
  );

  it(
    `matches it on a file that two processes share, in ${RUNS / 8} histories`,
    () => compareWithModel(inFile, { runs: RUNS / 8, seed }),
    TIMEOUT_MS,
  );
});
