import { StoreUnavailableError } from "../../../errors.js";
import { type Runner, type Statement, unnamed } from "./db.js";
import { isConnectionLost, sqlState } from "./errors.js";
import type { InsertRunner } from "../jobs/insert-direct.js";

const READ_ONLY = "25006";
const SAVE: Statement = { ...unnamed("SAVEPOINT holdfast"), brief: true };
const KEEP: Statement = { ...unnamed("RELEASE SAVEPOINT holdfast"), brief: true };
const UNDO: Statement = { ...unnamed("ROLLBACK TO SAVEPOINT holdfast"), brief: true };

/** Writes inside an open transaction: a failure rolls back to its own savepoint only. */
export function insideOf(runner: Runner): InsertRunner {
  const inside: InsertRunner = {
    inside: true,
    run: (statement, values) => runner.run(statement, values),
    async isolated(work) {
      await runner.run(SAVE, []);
      try {
        const result = await work(inside);
        await runner.run(KEEP, []);
        return result;
      } catch (error) {
        // A statement that timed out may still be running, and a rollback on its connection would wait for it.
        if (!isAbandoned(error)) await runner.run(UNDO, []).catch(() => {});
        throw error;
      }
    },
    atomic: (work) => work(runner),
  };
  return inside;
}

/** Accepts errors of the driver and those already converted. A read-only transaction can still roll back. */
function isAbandoned(error: unknown): boolean {
  const cause = error instanceof StoreUnavailableError ? error.cause : error;
  return isConnectionLost(cause) && sqlState(cause) !== READ_ONLY;
}
