import { copyFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { holdfast } from "holdfast";
import type { Bed, StoreName } from "../bed.js";
import { openStore } from "../open-store.js";
import type { Progress } from "../progress.js";
import { check, type Violation } from "./checker.js";
import { Faults, historyFile } from "./faults.js";
import { tortureJobs } from "./jobs.js";
import type { MutantName } from "./mutants.js";
import { planRound } from "./plan.js";
import { playRound, roundFolder, type Site } from "./round.js";
import { startWorkers } from "./worker-pool.js";

export interface TortureOptions {
  store: StoreName;
  seed: number;
  /** How many runs, or for how long. */
  runs: number | null;
  minutes: number | null;
  /** Breaks a rule on purpose, to test the checker. */
  mutant?: MutantName | null;
  /** A round whose jobs have not all ended by then has failed. */
  endWithinMs?: number;
}

export interface FoundViolation extends Violation {
  /** Of the round. */
  seed: number;
  /** How many runs the round had. */
  runs: number;
}

export interface TortureResult {
  runs: number;
  seconds: number;
  /** How many faults were injected, by kind. */
  faults: Record<string, number>;
  /** Waits whose interrupted wake was repaired. */
  repaired: number;
  violations: FoundViolation[];
  /** Files with the histories of rounds that violated a rule. */
  histories: string[];
}

/** Runs that share workers and are checked together. The seed of a round plans all of them. */
export const ROUND_RUNS = 10;
const WORKERS = 3;
const CONCURRENCY = 6;
const END_WITHIN_MS = 120_000;
// DynamoDB Local is slow; a lease must not expire for that reason all the time.
const LEASE_MS: Record<StoreName, number> = { sqlite: 600, postgres: 600, dynamodb: 1_500 };
// A pause outlasts the lease, and leaves another worker the time to go on.
const PAUSE_LEASES = 2.5;

/** Runs jobs with steps in worker processes that are killed and paused, and checks the rules. */
export async function torture(
  bed: Bed,
  folder: string,
  { store: name, seed, runs, minutes, mutant = null, endWithinMs = END_WITHIN_MS }: TortureOptions,
  progress: Progress,
): Promise<TortureResult> {
  const began = performance.now();
  const seconds = (): number => (performance.now() - began) / 1_000;
  const place = bed.nowhere();
  const store = await openStore(place.url);
  const jobs = tortureJobs(new Faults());
  const hf = await holdfast({ store, jobs: Object.values(jobs), scheduler: false, logger: false });
  const leaseMs = LEASE_MS[name];
  let failed: (error: Error) => void = () => {};
  const failure = new Promise<never>((_, reject) => (failed = reject));
  failure.catch(() => {});
  const order = { url: place.url, leaseMs, concurrency: CONCURRENCY, mutant };
  const workers = startWorkers(WORKERS, order, (reason) => failed(new Error(reason)));
  const site: Site = { hf, store, jobs, workers, folder, pauseMs: leaseMs * PAUSE_LEASES, endWithinMs };
  const result: TortureResult = { runs: 0, seconds: 0, faults: {}, repaired: 0, violations: [], histories: [] };
  const isOver = (): boolean => result.runs >= (runs ?? Infinity) || seconds() >= (minutes ?? Infinity) * 60;
  try {
    for (let round = 0; !isOver(); round++) {
      const size = Math.min(ROUND_RUNS, (runs ?? Infinity) - result.runs);
      const plan = planRound(seed + round, size);
      progress.step(
        `seed ${plan.seed}: ${result.runs} runs, ${result.violations.length} violations, ${Math.round(seconds())} s`,
      );
      const evidence = await Promise.race([playRound(site, plan), failure]);
      const violations = check(evidence);
      if (violations.length > 0) result.histories.push(keepHistory(folder, name, plan.seed));
      for (const { did, ...entry } of evidence.history) {
        if (did !== "fault" || !("fault" in entry)) continue;
        const { action, moment, place: where } = entry.fault;
        const kind = `${action} ${moment} ${where === "step" && moment === "inside" ? "a step's function" : NAMES[where]}`;
        result.faults[kind] = (result.faults[kind] ?? 0) + 1;
      }
      result.runs += size;
      result.repaired += evidence.asleep.length;
      result.violations.push(...violations.map((each) => ({ ...each, seed: plan.seed, runs: size })));
    }
  } finally {
    await workers.stop();
    await hf.close();
    await place.remove();
    progress.end();
  }
  return { ...result, seconds: seconds() };
}

/** Copies the history of a round out of the folder, which is removed at the end. */
function keepHistory(folder: string, store: StoreName, seed: number): string {
  const file = join(dirname(folder), `torture-${store}-${seed}.jsonl`);
  copyFileSync(historyFile(roundFolder(folder, seed)), file);
  return file;
}

const NAMES = {
  step: "a step",
  save: "the write of a step",
  park: "a park",
  emit: "an emit",
  "child end": "the end of a child",
  claim: "a claim",
} as const;
