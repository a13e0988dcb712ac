import { StoreUnavailableError } from "../../../errors.js";
import { type Runner, type Statement, unnamed } from "./db.js";
import { isConnectionLost, sqlState } from "./errors.js";
import type { InsertRunner } from "../jobs/insert-direct.js";

const READ_ONLY = "25006";
const SAVE: Statement = { ...unnamed("SAVEPOINT holdfast"), brief: true };
const KEEP: Statement = { ...unnamed("RELEASE SAVEPOINT holdfast"), brief: true };
const UNDO: Statement = { ...unnamed("ROLLBACK TO SAVEPOINT holdfast"), brief: true };

/** Writing inside a transaction that is open already: what fails goes back to where it began, and no further. */
export function insideOf(runner: Runner): InsertRunner {
  const inside: InsertRunner = {
    inside: true,
    run: (statement, values) => runner.run(statement, values),
    async apart(work) {
      await runner.run(SAVE, []);
      try {
        const answer = await work(inside);
        await runner.run(KEEP, []);
        return answer;
      } catch (error) {
        // A statement that was given up may still be under way: what is said after it on its connection waits for it.
        if (!isGivenUp(error)) await runner.run(UNDO, []).catch(() => {});
        throw error;
      }
    },
    together: (work) => work(runner),
  };
  return inside;
}

/** Of the driver's errors and of those that are told as ours already. A transaction that takes no writes can go back. */
function isGivenUp(error: unknown): boolean {
  const cause = error instanceof StoreUnavailableError ? error.cause : error;
  return isConnectionLost(cause) && sqlState(cause) !== READ_ONLY;
}
