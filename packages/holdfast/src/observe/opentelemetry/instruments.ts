import type { Attributes, Meter } from "@opentelemetry/api";
import type { EnqueueCall, RunEnd, TracedRun } from "../../engine/events/telemetry.js";
import type { Stats } from "../../engine/client/stats.js";
import { ATTRIBUTES, errorType, operation } from "./attributes.js";

// From a fast insert to the default timeout of a handler.
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900];
// Callers choose queues, so the number of gauges must be limited.
const MAX_QUEUES = 200;
const OTHER = "other";

/** The metrics. They use the names of the conventions where these define one. */
export interface Instruments {
  enqueued(call: EnqueueCall, jobs: number, durationMs: number, error: unknown): void;
  started(run: TracedRun): void;
  ended(run: TracedRun, end: RunEnd): void;
  /** Observes the depth of the queues. Returns a function that stops it. */
  observe(client: { stats(): Promise<Stats> }): () => void;
}

export function instrumentsOf(meter: Meter): Instruments {
  const duration = { unit: "s", advice: { explicitBucketBoundaries: SECONDS } };
  const sent = meter.createCounter("messaging.client.sent.messages", {
    unit: "{message}",
    description: "Jobs enqueued by this process.",
  });
  const sending = meter.createHistogram("messaging.client.operation.duration", {
    ...duration,
    description: "Duration of enqueue calls.",
  });
  const consumed = meter.createCounter("messaging.client.consumed.messages", {
    unit: "{message}",
    description: "Attempts started.",
  });
  const processing = meter.createHistogram("messaging.process.duration", {
    ...duration,
    description: "Duration of handlers, by outcome of the attempt.",
  });
  const wait = meter.createHistogram("holdfast.job.wait.duration", {
    ...duration,
    description: "Time from when a job was due until its handler started.",
  });
  const losses = meter.createCounter("holdfast.lease.losses", {
    unit: "{lease}",
    description: "Leases that expired before the outcome was stored.",
  });
  const jobs = meter.createObservableGauge("holdfast.jobs", {
    unit: "{job}",
    description: "Jobs in the store, by queue and state.",
  });
  const oldest = meter.createObservableGauge("holdfast.jobs.oldest_due", {
    unit: "s",
    description: "How long the oldest due job has waited; 0 if none is due.",
  });

  const withError = (attributes: Attributes, error: unknown): Attributes =>
    error === null ? attributes : { ...attributes, [ATTRIBUTES.errorType]: errorType(error) };

  return {
    enqueued(call, count, durationMs, error) {
      const attributes = withError(operation("publish", call), error);
      if (count > 0) sent.add(count, attributes);
      sending.record(durationMs / 1_000, attributes);
    },
    started({ job, waitMs }) {
      consumed.add(1, operation("process", job));
      wait.record(waitMs / 1_000, operation("process", job));
    },
    ended({ job }, { outcome, error, durationMs }) {
      const attributes = { ...operation("process", job), [ATTRIBUTES.outcome]: outcome };
      processing.record(durationMs / 1_000, withError(attributes, error));
      if (outcome === "lost") losses.add(1, operation("process", job));
    },
    observe(client) {
      // One query for both gauges, once per collection. If the store does not respond, no values are observed.
      const observeStats = async (
        result: Parameters<Parameters<Meter["addBatchObservableCallback"]>[0]>[0],
      ): Promise<void> => {
        const stats = await client.stats().catch(() => null);
        if (stats === null) return;
        result.observe(oldest, (stats.oldestDueMs ?? 0) / 1_000, { [ATTRIBUTES.system]: "holdfast" });
        for (const { queue, state, count } of depths(stats)) {
          const attributes = {
            [ATTRIBUTES.system]: "holdfast",
            [ATTRIBUTES.destination]: queue,
            [ATTRIBUTES.state]: state,
          };
          result.observe(jobs, count, attributes);
        }
      };
      meter.addBatchObservableCallback(observeStats, [jobs, oldest]);
      return () => meter.removeBatchObservableCallback(observeStats, [jobs, oldest]);
    },
  };
}

/** Jobs by queue and state. Queues above the limit are summed as `OTHER`. */
function depths({ queues }: Stats): { queue: string; state: string; count: number }[] {
  const counts = new Map<string, { queue: string; state: string; count: number }>();
  for (const [index, [name, states]] of Object.entries(queues).entries()) {
    const queue = index < MAX_QUEUES ? name : OTHER;
    for (const [state, count] of Object.entries(states)) {
      const known = counts.get(`${state} ${queue}`);
      if (known === undefined) counts.set(`${state} ${queue}`, { queue, state, count });
      else known.count += count;
    }
  }
  return [...counts.values()];
}
