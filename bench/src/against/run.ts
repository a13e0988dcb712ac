import { join } from "node:path";
import type { Bed, StoreName } from "../bed.js";
import { machine } from "../machine.js";
import type { CompareOptions } from "../options.js";
import type { Progress } from "../progress.js";
import { alternate, type Plan } from "./alternate.js";
import { buildCommit, driverOf, hasChanges, resolveCommit } from "./builds.js";
import { compare, type Comparison } from "./comparison.js";

const ROOT = join(import.meta.dirname, "..", "..", "..");
const CACHE = join(ROOT, "node_modules", ".cache", "holdfast-bench");

/**
 * Sizes for about five minutes. Even with the fewest rounds there are a hundred pairs of each call and ten pairs of
 * drains.
 */
export const PLANS: Record<StoreName, Omit<Plan, "rounds">> = {
  sqlite: { sizes: [1, 100], times: 40, warmUp: 60, drainJobs: 10_000, drains: 4 },
  postgres: { sizes: [1, 100], times: 30, warmUp: 40, drainJobs: 5_000, drains: 3 },
  // The emulator takes a few hundred writes a second.
  dynamodb: { sizes: [1, 25], times: 10, warmUp: 4, drainJobs: 100, drains: 1 },
};

/** Compares the build of the working tree with that of a commit. */
export async function compareWith(
  { against, atLeast, rounds, store }: CompareOptions,
  openBed: () => Promise<Bed>,
  progress: Progress,
): Promise<Comparison> {
  const { hash, subject } = resolveCommit(ROOT, against);
  progress.step(`building ${hash.slice(0, 10)} (${subject})`);
  const folder = buildCommit(ROOT, hash, CACHE);
  const builds = {
    before: { folder, driver: await driverOf(folder) },
    after: { folder: ROOT, driver: join(import.meta.dirname, "driver.js") },
  };
  const begun = performance.now();
  const bed = await openBed();
  try {
    const plan: Plan = { rounds, ...PLANS[store] };
    const measures = await alternate(bed, builds, plan, (round) =>
      progress.step(`round ${round + 1} of ${rounds}, both builds in turn`),
    );
    progress.end();
    const rows = compare(measures, atLeast);
    return {
      version: 1,
      store,
      before: { commit: hash, subject },
      after: { commit: resolveCommit(ROOT, "HEAD").hash, changed: hasChanges(ROOT) },
      at: new Date().toISOString(),
      seconds: Math.round((performance.now() - begun) / 1_000),
      machine: machine(),
      database: await bed.facts(),
      rounds,
      drainJobs: plan.drainJobs,
      atLeast,
      rows,
      met: rows.every(({ met }) => met),
    };
  } finally {
    await bed.close();
  }
}
