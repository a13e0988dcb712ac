import type { Holdfast } from "holdfast";
import { optionKeys, refuseUnknown } from "holdfast/pack";
import type { NewsletterRecords, SendRun } from "./records.js";

/** Options of `dispatchDue`. */
export interface DispatchOptions {
  /** Only finds the runs, and enqueues nothing. */
  dryRun?: boolean;
}

/** A due run that had no job. */
export interface DispatchedRun extends Pick<SendRun, "id" | "newsletterId" | "scheduledFor" | "status"> {
  /** The new job; null with `dryRun`. */
  readonly jobId: string | null;
}

const OPTIONS = optionKeys<DispatchOptions>({ dryRun: true });
/** How many runs one call dispatches. */
const MAX_RUNS = 1_000;

interface DispatchParts {
  readonly records: NewsletterRecords;
  readonly enqueueRun: (run: SendRun) => Promise<string>;
  readonly now: Date;
}

/** Enqueues the job of every due run whose job is finished or was deleted. Safe to repeat, also at the same time. */
export async function dispatchDue(
  hf: Holdfast,
  { records, enqueueRun, now }: DispatchParts,
  options: DispatchOptions,
): Promise<DispatchedRun[]> {
  refuseUnknown(options, OPTIONS, "dispatchDue");
  const { dryRun = false } = options;
  const dispatched: DispatchedRun[] = [];
  for (const run of await records.due(now, MAX_RUNS)) {
    const job = await hf.get(run.jobId);
    if (job !== null && job.finishedAt === null) continue;
    const jobId = dryRun ? null : await enqueueRun(run);
    if (jobId !== null) await records.setJob(run.id, jobId);
    const { id, newsletterId, scheduledFor, status } = run;
    dispatched.push({ id, newsletterId, scheduledFor, status, jobId });
  }
  return dispatched;
}
