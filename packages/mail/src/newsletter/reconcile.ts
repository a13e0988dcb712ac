import type { Holdfast, Job } from "holdfast";
import type { DeliveryStatus, NewsletterRecords } from "./records.js";

/** How many deliveries are read at once. As many jobs can be listed by their ids. */
const PAGE = 100;

/**
 * Corrects the deliveries of a run that are `queued` although their job has ended without a call of its handler, or does not exist any more. Returns
 * how many. Reads each delivery of the run at most once.
 */
export async function reconcile(
  hf: Pick<Holdfast, "list">,
  records: Pick<NewsletterRecords, "queued" | "setDelivery">,
  run: string,
): Promise<number> {
  let corrected = 0;
  for (let after = ""; ;) {
    const page = await records.queued(run, after, PAGE);
    const last = page.at(-1);
    if (last === undefined) return corrected;
    after = last.subscriber;
    const jobs = await jobsOf(
      hf,
      page.flatMap(({ jobId }) => (jobId === null ? [] : [jobId])),
    );
    for (const { subscriber, jobId } of page) {
      const status = statusOf(jobs.get(jobId ?? ""));
      if (status === "queued") continue;
      // One that was sent meanwhile stays so.
      await records.setDelivery(run, { subscriber, jobId, status });
      corrected++;
    }
  }
}

async function jobsOf(hf: Pick<Holdfast, "list">, ids: readonly string[]): Promise<ReadonlyMap<string, Job>> {
  const found = new Map<string, Job>();
  for (let cursor: string | null = null; ;) {
    const page = await hf.list({ id: [...ids], limit: PAGE, ...(cursor !== null && { cursor }) });
    for (const job of page.jobs) found.set(job.id, job);
    cursor = page.cursor;
    if (cursor === null || found.size === ids.length) return found;
  }
}

/** A job that was deleted, cancelled or is dead will send nothing. */
function statusOf(job: Job | undefined): DeliveryStatus {
  switch (job?.state) {
    case undefined:
    case "dead":
    case "cancelled":
      return "failed";
    case "completed":
      return (job?.output as { skipped?: unknown } | null)?.skipped === true ? "skipped" : "sent";
    default:
      return "queued";
  }
}
