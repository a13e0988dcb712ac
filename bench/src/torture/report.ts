import type { StoreName } from "../bed.js";
import { RULES } from "./checker.js";
import type { FoundViolation, TortureResult } from "./torture.js";

// Of each round; more say little more.
const MAX_SHOWN = 20;

/** What `npm run torture` prints. */
export function reportText(
  store: StoreName,
  { runs, seconds, faults, repaired, violations, histories }: TortureResult,
): string {
  const kinds = Object.entries(faults).toSorted(([one], [other]) => one.localeCompare(other));
  const injected = kinds.reduce((sum, [, count]) => sum + count, 0);
  return [
    `${runs} runs on ${store} in ${Math.round(seconds)} s. Faults: ${injected}. Violations: ${violations.length}.`,
    "",
    ...kinds.map(([kind, count]) => `${String(count).padStart(7)}  ${kind}`),
    `${String(repaired).padStart(7)}  waits whose interrupted wake was repaired`,
    ...violationLines(store, violations),
    ...histories.map((file) => `What its processes did: ${file}`),
  ].join("\n");
}

function violationLines(store: StoreName, violations: readonly FoundViolation[]): string[] {
  const lines: string[] = [];
  for (const seed of new Set(violations.map((each) => each.seed))) {
    const found = violations.filter((each) => each.seed === seed);
    lines.push("", `Seed ${seed}. Repeat it with:`, `  ${replayCommand(store, found[0] as FoundViolation)}`);
    for (const { rule, job, step, detail } of found.slice(0, MAX_SHOWN)) {
      lines.push(`  ${RULES[rule]}`, `    job ${job}${step === null ? "" : `, step ${step}`}: ${detail}`);
    }
    if (found.length > MAX_SHOWN) lines.push(`  and ${found.length - MAX_SHOWN} more`);
  }
  return lines;
}

export function replayCommand(store: StoreName, { seed, runs }: Pick<FoundViolation, "seed" | "runs">): string {
  return `npm run torture -- --store ${store} --runs ${runs} --seed ${seed}`;
}
