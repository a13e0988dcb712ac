import type { EventName, Listener } from "../engine/events/events.js";
import type { WorkerStatus } from "../engine/client/job-view.js";
import type { Stats } from "../engine/client/stats.js";
import { isLive } from "../live-worker.js";
import { CONTENT_TYPE, Counters, exposition, Histograms, type Family, type Labels, type Sample } from "./exposition.js";
import { MOST_NAMES, OTHER } from "./names.js";
import { version } from "./version.js";

/** What is asked of a client; `Holdfast` has it. */
export interface MeasuredClient {
  on<Name extends EventName>(name: Name, listener: Listener<Name>): () => void;
  stats(): Promise<Stats>;
  workers(): Promise<WorkerStatus[]>;
}

// Scrapes by several servers, or by somebody impatient, share what the store said.
const FRESH_MS = 1_000;
// From a quick job to the longest by default, in seconds.
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900];

/** Names as label values: the first so many as they are, the rest as one. Each is a line for every metric, for as long as the process lives. */
class Names {
  readonly #known = new Set<string>();

  label(name: string): string {
    if (this.#known.has(name)) return name;
    if (this.#known.size >= MOST_NAMES) return OTHER;
    this.#known.add(name);
    return name;
  }
}

/** Counters of what this process did, by event. */
const COUNTED = {
  enqueued: ["holdfast_enqueued_total", "Jobs that this process enqueued, but for those inside transactions."],
  completed: ["holdfast_completed_total", "Jobs that this process completed."],
  failed: ["holdfast_failed_total", "Attempts in this process that failed and will be retried."],
  dead: ["holdfast_dead_total", "Jobs that this process gave up."],
  cancelled: ["holdfast_cancelled_total", "Jobs whose cancellation this process carried out."],
  lost: ["holdfast_lost_leases_total", "Leases of this process that ran out under a handler or an outcome."],
  recovered: ["holdfast_recovered_total", "Leases of any worker that ran out and were found by this process."],
} as const;
type Counted = keyof typeof COUNTED;

/**
 * Metrics of one client in Prometheus' text format. Counters and histograms tell what this process did since this was made;
 * gauges tell of the whole store, and are the same in every process.
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
  #seen: { at: number; told: Promise<Told | null> } | null = null;

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

  /** Everything, as Prometheus reads it. A store that does not answer leaves out the gauges, and `holdfast_up` is 0. */
  async text(): Promise<string> {
    const told = await this.#told();
    return exposition([
      ...(Object.keys(COUNTED) as Counted[]).map((name) => this.#counterFamily(name)),
      {
        name: "holdfast_job_duration_seconds",
        help: "How long handlers of this process ran that completed or failed.",
        kind: "histogram",
        samples: this.#durations.samples(),
      },
      {
        name: "holdfast_job_wait_seconds",
        help: "From when jobs were due until their handlers began in this process.",
        kind: "histogram",
        samples: this.#waits.samples(),
      },
      ...(told === null ? [] : this.#gauges(told)),
      gauge("holdfast_up", "Whether the store answered just now.", told === null ? 0 : 1),
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

  #gauges({ stats, workers }: Told): Family[] {
    const oldest = (stats.oldestDueMs ?? 0) / 1_000;
    const running = workers.reduce((sum, worker) => sum + worker.running, 0);
    return [
      {
        name: "holdfast_jobs",
        help: "Jobs in the store, by state, queue and type.",
        kind: "gauge",
        samples: this.#depths(stats),
      },
      gauge("holdfast_oldest_due_seconds", "How long the job due longest has waited; 0 if none is due.", oldest),
      gauge("holdfast_workers", "Workers heard of in the last minute, in every process.", workers.length),
      gauge("holdfast_running", "Handlers that those workers last told of.", running),
    ];
  }

  /** Several names may be one label, and no line may come twice. */
  #depths({ counts }: Stats): Sample[] {
    const depths = new Counters();
    for (const { state, count, ...names } of counts) depths.add({ state, ...this.#labels(names) }, count);
    return depths.samples();
  }

  #told(): Promise<Told | null> {
    const now = performance.now();
    if (this.#seen === null || now - this.#seen.at >= FRESH_MS) this.#seen = { at: now, told: this.#ask() };
    return this.#seen.told;
  }

  async #ask(): Promise<Told | null> {
    try {
      const [stats, workers] = await Promise.all([this.#client.stats(), this.#client.workers()]);
      const now = Date.now();
      return { stats, workers: workers.filter((worker) => isLive(worker, now)) };
    } catch {
      return null;
    }
  }
}

interface Told {
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
