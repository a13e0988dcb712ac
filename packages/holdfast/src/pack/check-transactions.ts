import type { Holdfast } from "../engine/client/holdfast.js";
import type { JobType } from "../job/job.js";
import type { Database, Steps } from "./sql.js";

/** What {@link checkTransactions} needs of a client. */
export type TransactionClient = Pick<Holdfast, "enqueueMany">;

/**
 * Throws if a client cannot enqueue jobs in transactions of this database, because its jobs are on another store. A pack calls it when it
 * is installed, so that an application with this mistake does not start.
 */
export async function checkTransactions(db: Database, hf: TransactionClient, type: JobType): Promise<void> {
  await db.transaction(function* (tx): Steps<void> {
    yield* tx.call(() => hf.enqueueMany(type, [], { tx: tx.handle }));
  });
}
