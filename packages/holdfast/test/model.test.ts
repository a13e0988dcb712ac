import { describe, it } from "vitest";
import { compareWithModel } from "#src/testing/model-run.js";
import { inFile, inMemory } from "./model-scene.js";

// HOLDFAST_SEED repeats the runs of a seed, or the one run that a failure printed. HOLDFAST_RUNS sets the number of runs.
const seed = process.env["HOLDFAST_SEED"];
const runs = Number(process.env["HOLDFAST_RUNS"] ?? 75);
const TIMEOUT_MS = 60_000 + 200 * runs;

// Concurrent: one keeps a core busy, the other mostly waits for threads and the disk.
describe.concurrent("promises 2–9: leases, fences, attempts, keys, slots, conservation, every job ends", () => {
  it(
    `SQLite matches the reference model in ${runs} random histories`,
    () => compareWithModel(inMemory, { runs, seed }),
    TIMEOUT_MS,
  );

  it(
    "a SQLite file that two processes share and reopen matches it too",
    () => compareWithModel(inFile, { runs: Math.ceil(runs / 8), seed }),
    TIMEOUT_MS,
  );
});
