// Why a change of many jobs leaves some as they are. Pure.
import { number } from "../../app/format.js";

const REASONS: Readonly<Record<string, string>> = {
  "key-held": "another job holds the unique key",
  "not-retryable": "not failed, dead or cancelled",
  "not-waiting": "not waiting",
  finished: "finished",
  leased: "claimed or running",
  conflict: "it is not possible for them",
  rejected: "the input is not valid",
  missing: "deleted meanwhile",
};

/** "6 skipped: another job holds the unique key; 2 skipped: finished". Empty if none was. */
export function skippedWords(skipped: Readonly<Record<string, number>>): string {
  return Object.entries(skipped)
    .filter(([, count]) => count > 0)
    .toSorted(([, one], [, other]) => other - one)
    .map(([reason, count]) => `${number(count)} skipped: ${Object.hasOwn(REASONS, reason) ? REASONS[reason] : reason}`)
    .join("; ");
}
