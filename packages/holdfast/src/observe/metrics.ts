import type { EventName, Listener } from "../engine/events/events.js";
import type { WorkerStatus } from "../engine/client/job-view.js";
import type { Stats } from "../engine/client/stats.js";
import { isLive } from "../live-worker.js";
import { CONTENT_TYPE, Counters, exposition, Histograms, type Family, type Labels, type Sample } from "./exposition.js";
import { MAX_NAMES, OTHER } from "./names.js";
import { version } from "../engine/version.js";

/** The methods of a client that `Metrics` uses. `Holdfast` has them. */
export interface MeasuredClient {
  on<Name extends EventName>(name: Name, listener: Listener<Name>): () => void;
  stats(): Promise<Stats>;
  workers(): Promise<WorkerStatus[]>;
}

// Scrapes within this time share one query of the store.
const FRESH_MS = 1_000;
// In seconds, from a fast job to the default timeout.
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900];

/**
 * Names as label values: the first `MAX_NAMES` unchanged, all others as `OTHER`. Each name adds lines to the metrics until the
 * process ends.
 */
class Names {
  readonly #known = new Set<string>();

  label(name: string): string {
    if (this.#known.has(name)) return name;
    if (this.#known.size >= MAX_NAMES) return OTHER;
    this.#known.add(name);
    return name;
  }
}

/** The counters of this process, by event. */
const COUNTED = {
  enqueued: ["holdfast_enqueued_total", "Jobs enqueued by this process, except in transactions."],
  completed: ["holdfast_completed_total", "Jobs completed by this process."],
  failed: ["holdfast_failed_total", "Failed attempts in this process that will be retried."],
  dead: ["holdfast_dead_total", "Jobs dead-lettered by this process."],
  cancelled: ["holdfast_cancelled_total", "Jobs cancelled by this process."],
  lost: ["holdfast_lost_leases_total", "Leases of this process that expired before the outcome was stored."],
  recovered: ["holdfast_recovered_total", "Expired leases of any worker that this process recovered."],
} as const;
type Counted = keyof typeof COUNTED;

/**
 * Metrics of one client in Prometheus' text format. Counters and histograms cover this process since the object was created. Gauges
 * cover the whole store and are the same in every process.
 *
 * ```ts
 * const metrics = new Metrics(hf);
 * app.get("/metrics", async (c) => c.body(await metrics.text(), 200, { "content-type": Metrics.contentType }));
 * ```
 */
export class Metrics {
  static readonly contentType: string = CONTENT_TYPE;
  readonly #client: MeasuredClient;
  readonly #types = new Names();
  readonly #queues = new Names();
  readonly #counters = new Map<Counted, Counters>();
  readonly #durations = new Histograms(BOUNDS);
  readonly #waits = new Histograms(BOUNDS);
  readonly #offs: (() => void)[];
  #snapshot: { at: number; state: Promise<StoreState | null> } | null = null;

  constructor(client: MeasuredClient) {
    this.#client = client;
    const ran = ({ type, durationMs, waitMs }: Ran): void => {
      if (durationMs !== null) this.#durations.observe({ type: this.#types.label(type) }, durationMs / 1_000);
      if (waitMs !== null) this.#waits.observe({ type: this.#types.label(type) }, waitMs / 1_000);
    };
    this.#offs = [
      ...(Object.keys(COUNTED) as Counted[]).map((name) => this.#count(name)),
      client.on("completed", ran),
      client.on("failed", ran),
      client.on("dead", ran),
    ];
  }

  /** All metrics in Prometheus' format. If the store does not respond, the gauges are omitted and `holdfast_up` is 0. */
  async text(): Promise<string> {
    const state = await this.#storeState();
    return exposition([
      ...(Object.keys(COUNTED) as Counted[]).map((name) => this.#counterFamily(name)),
      {
        name: "holdfast_job_duration_seconds",
        help: "Duration of handlers in this process that completed or failed.",
        kind: "histogram",
        samples: this.#durations.samples(),
      },
      {
        name: "holdfast_job_wait_seconds",
        help: "Time from when jobs were due until their handlers started in this process.",
        kind: "histogram",
        samples: this.#waits.samples(),
      },
      ...(state === null ? [] : this.#gauges(state)),
      gauge("holdfast_up", "1 if the store responded, otherwise 0.", state === null ? 0 : 1),
      gauge("holdfast_build_info", "The version of Holdfast and of Node.", 1, {
        version: version(),
        node: process.version,
      }),
    ]);
  }

  /** Stops listening to the client. */
  stop(): void {
    for (const off of this.#offs.splice(0)) off();
  }

  #count(name: Counted): () => void {
    const counters = new Counters();
    this.#counters.set(name, counters);
    return this.#client.on(name, (event: { type: string; queue: string }) => counters.add(this.#labels(event)));
  }

  #labels({ type, queue }: { type: string; queue: string }): Labels {
    return { queue: this.#queues.label(queue), type: this.#types.label(type) };
  }

  #counterFamily(event: Counted): Family {
    const [name, help] = COUNTED[event];
    return { name, help, kind: "counter", samples: this.#counters.get(event)?.samples() ?? [] };
  }

  #gauges({ stats, workers }: StoreState): Family[] {
    const oldest = (stats.oldestDueMs ?? 0) / 1_000;
    const running = workers.reduce((sum, worker) => sum + worker.running, 0);
    return [
      {
        name: "holdfast_jobs",
        help: "Jobs in the store, by state, queue and type.",
        kind: "gauge",
        samples: this.#depths(stats),
      },
      gauge("holdfast_oldest_due_seconds", "How long the oldest due job has waited; 0 if none is due.", oldest),
      gauge("holdfast_workers", "Live workers in all processes.", workers.length),
      gauge("holdfast_running", "Running handlers, as last reported by those workers.", running),
    ];
  }

  /** Sums the counts of names that share the label `OTHER`, because each line may appear only once. */
  #depths({ counts }: Stats): Sample[] {
    const depths = new Counters();
    for (const { state, count, ...names } of counts) depths.add({ state, ...this.#labels(names) }, count);
    return depths.samples();
  }

  #storeState(): Promise<StoreState | null> {
    const now = performance.now();
    if (this.#snapshot === null || now - this.#snapshot.at >= FRESH_MS)
      this.#snapshot = { at: now, state: this.#query() };
    return this.#snapshot.state;
  }

  async #query(): Promise<StoreState | null> {
    try {
      const [stats, workers] = await Promise.all([this.#client.stats(), this.#client.workers()]);
      const now = Date.now();
      return { stats, workers: workers.filter((worker) => isLive(worker, now)) };
    } catch {
      return null;
    }
  }
}

interface StoreState {
  stats: Stats;
  workers: readonly WorkerStatus[];
}
interface Ran {
  type: string;
  durationMs: number | null;
  waitMs: number | null;
}

function gauge(name: string, help: string, value: number, labels: Labels = {}): Family {
  return { name, help, kind: "gauge", samples: [{ labels, value }] };
}
