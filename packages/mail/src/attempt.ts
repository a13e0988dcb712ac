import type { RunContext } from "holdfast";

/** Rejects as soon as the signal is aborted: a transport or database that ignores it must not hold up the worker. */
export async function untilAborted<Result>(work: Result | Promise<Result>, signal: AbortSignal): Promise<Result> {
  let stop = (): void => {};
  const aborted = new Promise<never>((_resolve, reject) => {
    stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
    aborted.catch(() => {});
  }
}

/** Whether the job will not be retried after this error. */
export function isFinal(error: unknown, { job, signal }: Pick<RunContext<unknown>, "job" | "signal">): boolean {
  const code = codeOf(error);
  const reason = signal.aborted ? codeOf(signal.reason) : null;
  // A lost lease and a stopping worker: the attempt is repeated elsewhere.
  if (reason === "LEASE_LOST" || reason === "WORKER_STOPPING") return false;
  return (
    code === "NOT_RETRYABLE" || code === "CANCELLED" || reason === "JOB_CANCELLED" || job.attempt >= job.maxAttempts
  );
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown } | null | undefined)?.code;
}
