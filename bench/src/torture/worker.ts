// The entry point of a worker process. Its parent starts it, and wakes it up when it has stopped itself.
import { holdfast } from "holdfast";
import { openStore } from "../open-store.js";
import { Faults } from "./faults.js";
import { injectFaults } from "./faulty-store.js";
import { tortureJobs } from "./jobs.js";
import { MUTANTS, type MutantName } from "./mutants.js";

/** What a worker process gets when it starts. */
export interface WorkerOrder {
  url: string;
  leaseMs: number;
  concurrency: number;
  /** Breaks a rule on purpose, to test the checker. */
  mutant: MutantName | null;
}

process.on("message", (order: WorkerOrder) => void work(order));
// The parent has ended.
process.once("disconnect", () => process.exit());

async function work({ url, leaseMs, concurrency, mutant }: WorkerOrder): Promise<void> {
  const faults = new Faults();
  const opened = await openStore(url);
  const store = injectFaults(mutant === null ? opened : MUTANTS[mutant](opened), faults);
  const hf = await holdfast({ store, jobs: Object.values(tortureJobs(faults)), scheduler: false, logger: false });
  hf.work({ concurrency, lease: leaseMs, poll: 100 });
  process.send?.({ kind: "working" });
}
