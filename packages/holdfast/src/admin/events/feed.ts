import { engineOf, type Holdfast } from "../../engine/client/holdfast.js";
import type { EventName } from "../../engine/events/events.js";
import { follow } from "../../engine/events/follow.js";
import type { ListOptions } from "../../engine/client/filter.js";
import type { Job } from "../../job/job.js";
import { isWaiting, type State } from "../../job/state.js";
import { messageOf } from "../../job/thrown.js";
import { ApiError } from "../http/api-error.js";
import type { Redactor } from "../../redact.js";
import { jobSummary, redactProgress } from "../calls/serializers.js";
import { EventBuffer } from "./event-buffer.js";
import { RecentStats } from "../calls/recent-stats.js";
import { statsResult } from "../calls/stats-result.js";
import { newSseClient, type SseClient } from "./sse-client.js";

/** Events of this process that are sent immediately. */
const FORWARDED_EVENTS: readonly EventName[] = [
  "enqueued",
  "claimed",
  "started",
  "progress",
  "completed",
  "failed",
  "dead",
  "cancelled",
  "released",
  "retried",
  "updated",
  "removed",
  "lost",
  "stuck",
  "recovered",
  "expired",
  "purged",
  "paused",
  "resumed",
  "fired",
  "skipped",
];
const TICK_MS = 1_000;

/** How often the store is read, in ticks. */
interface Pace {
  /** A change is sent in the next tick, unless another one was sent so many ticks ago. */
  changed: number;
  /** The counts are read with a change, and else as often as this: without one, only their ages and rates differ. */
  countsChanged: number;
  counts: number;
  paused: number;
  /** After a change, and without one. Null: never. */
  polled: { changed: number; unchanged: number } | null;
}
const PACE: Pace = { changed: 2, countsChanged: 2, counts: 5, paused: 15, polled: { changed: 10, unchanged: 5 } };
// Counts take a request for each lane and shard there, and lists of the newest jobs one for each type. So progress is not sent.
const METERED_PACE: Pace = {
  changed: 4,
  countsChanged: 60,
  counts: 60,
  paused: 60,
  polled: null,
};
// Jobs that changed in any process are read and sent together, this many at most.
const MAX_JOBS_PER_TICK = 500;
const POLLED_JOBS = 100;
// Polled jobs are searched for this often. In between, they and those that have changed since are read by id, which is cheaper.
const TICKS_BETWEEN_SEARCHES = 30;
const MAX_CLIENTS = 200;
const MAX_PER_TICK = 500;
// Events within this time are sent together, so that each client costs only a few writes per second.
const BATCH_MS = 200;
// Streams end after this time. Clients reconnect, and are authenticated again.
const STREAM_MS = 300_000;
// Streams of tokens that were revoked end sooner.
const TICKS_BETWEEN_CHECKS = 10;
const ENCODER = new TextEncoder();
const NEVER = Number.NEGATIVE_INFINITY;

type Read = "counts" | "changed" | "paused" | "polled" | "searched" | "callers";

/** Whom a stream is for. */
interface StreamOptions {
  /** The stream ends after this time, that of the session. Null: it has none. */
  maxMs?: number | null;
  /** Whether the caller would be authorized again. */
  isAuthorized?: () => Promise<boolean>;
}

interface Caller {
  name: string;
  isAuthorized: () => Promise<boolean>;
}

const NO_READS: Readonly<Record<Read, number>> = {
  counts: NEVER,
  changed: NEVER,
  paused: NEVER,
  polled: NEVER,
  searched: NEVER,
  callers: NEVER,
};

/** What was sent of a job. */
interface Seen {
  state: State;
  version: string;
}

interface FeedOptions {
  streamsPerCaller: number;
  redact: Redactor;
  /** The store charges for requests: it is read less often. */
  isMetered?: boolean;
  stats?: RecentStats;
  /** The jobs that any process changes. */
  followJobs?: (signal: AbortSignal) => AsyncIterable<{ id: string }>;
}

/** Reads every second or two: `hf.follow` reads more often. */
function followCalmly(hf: Holdfast): NonNullable<FeedOptions["followJobs"]> {
  return (signal) => follow(engineOf(hf), { signal }, { isCalm: true });
}

/**
 * Job events as server-sent events. All clients share one feed: it follows the jobs of all processes once for all of them, and each
 * event is serialized once. The feed stops while no client reads.
 */
export class Feed {
  readonly #hf: Holdfast;
  readonly #maxPerCaller: number;
  readonly #redact: Redactor;
  readonly #pace: Pace;
  readonly #stats: RecentStats;
  readonly #buffer = new EventBuffer();
  /** With the caller of each. */
  readonly #clients = new Map<SseClient, Caller>();
  /** Clients that wait for new events. */
  readonly #waiting = new Set<SseClient>();
  #off: (() => void)[] = [];
  #timer: NodeJS.Timeout | null = null;
  #batchTimer: NodeJS.Timeout | null = null;
  /** Events that are not sent yet. */
  #pending = "";
  #deliveredAt = Number.NEGATIVE_INFINITY;
  /** Whether a client has read anything since the last tick. */
  #wasRead = false;
  /** Jobs that changed since the last tick. */
  #changed = new Set<string>();
  #followed: AbortController | null = null;
  /** The jobs of the last poll, and those that were sent since. */
  #seen = new Map<string, Seen>();
  #sent = 0;
  #ticking = false;
  #ticks = 0;
  readonly #followJobs: NonNullable<FeedOptions["followJobs"]>;
  /** The ticks of the last reads. */
  #readAt: Record<Read, number> = { ...NO_READS };
  /** All queues are paused. */
  #isPaused = false;
  /** Running jobs, by the last counts. */
  #running = 0;
  /** The last counts that were sent. */
  #sentCounts: Uint8Array | null = null;

  constructor(hf: Holdfast, options: FeedOptions) {
    const { streamsPerCaller, redact, isMetered = false } = options;
    this.#hf = hf;
    this.#followJobs = options.followJobs ?? followCalmly(hf);
    this.#pace = isMetered ? METERED_PACE : PACE;
    this.#stats = options.stats ?? new RecentStats(hf);
    this.#redact = redact;
    this.#maxPerCaller = streamsPerCaller;
  }

  /** Returns the body of a response. It ends when the client disconnects. `caller`: for the limit per caller. */
  open(
    caller: string,
    { maxMs = null, isAuthorized = async () => true }: StreamOptions = {},
  ): ReadableStream<Uint8Array> {
    const mine = [...this.#clients.values()].filter(({ name }) => name === caller).length;
    if (mine >= this.#maxPerCaller) {
      throw tooManyStreams(`this caller has ${mine} open event streams, the maximum; close one`);
    }
    if (this.#clients.size >= MAX_CLIENTS)
      throw tooManyStreams(`the server has ${MAX_CLIENTS} open event streams, the maximum; retry later`);
    const client = newSseClient(this.#buffer, this.#sentCounts, {
      onPull: (puller, waits) => {
        if (waits) this.#waiting.add(puller);
        this.#wasRead = true;
        if (this.#timer === null) this.#start();
      },
      onEnd: (ended) => {
        clearTimeout(maxAge);
        this.#waiting.delete(ended);
        this.#clients.delete(ended);
        if (this.#clients.size === 0) this.#stop();
      },
    });
    const maxAge = setTimeout(() => client.end(), Math.min(STREAM_MS, maxMs ?? STREAM_MS));
    maxAge.unref();
    this.#clients.set(client, { name: caller, isAuthorized });
    return client.body;
  }

  close(): void {
    for (const client of this.#clients.keys()) client.end();
  }

  #start(): void {
    this.#off = FORWARDED_EVENTS.map((name) => this.#hf.on(name, (event) => this.#sendLimited(name, event)));
    for (const name of ["paused", "resumed"] as const) this.#off.push(this.#hf.on(name, () => this.#readSoon()));
    this.#timer = setInterval(() => void this.#tick(), TICK_MS);
    this.#timer.unref();
    void this.#follow();
    void this.#tick();
  }

  /** Collects the jobs that any process changes. If it fails, the next tick starts it again. */
  async #follow(): Promise<void> {
    const ended = new AbortController();
    this.#followed = ended;
    try {
      for await (const { id } of this.#followJobs(ended.signal)) {
        if (this.#changed.size < MAX_JOBS_PER_TICK) this.#changed.add(id);
      }
    } catch (error) {
      this.#send("outage", { message: messageOf(error) });
    } finally {
      if (this.#followed === ended) this.#followed = null;
    }
  }

  #stop(): void {
    for (const off of this.#off) off();
    this.#off = [];
    if (this.#timer !== null) clearInterval(this.#timer);
    if (this.#batchTimer !== null) clearTimeout(this.#batchTimer);
    this.#timer = this.#batchTimer = null;
    this.#followed?.abort();
    this.#followed = null;
    this.#changed.clear();
    this.#seen = new Map();
    this.#readAt = { ...NO_READS };
    this.#pending = "";
    this.#sentCounts = null;
    this.#deliveredAt = Number.NEGATIVE_INFINITY;
    this.#buffer.interrupt();
  }

  async #tick(): Promise<void> {
    this.#sent = 0;
    // All clients have stopped reading: stop until one of them reads again.
    if (!this.#wasRead && this.#waiting.size === 0) return this.#stop();
    this.#wasRead = false;
    // The last tick still waits for a slow store.
    if (this.#ticking) return;
    this.#ticking = true;
    this.#ticks++;
    try {
      // First: callers that are no longer authorized get nothing of what follows.
      if (this.#isDue("callers", TICKS_BETWEEN_CHECKS)) await this.#endUnauthorized();
      const { changed, counts, countsChanged } = this.#pace;
      const isChanged = this.#changed.size > 0 && this.#isDue("changed", changed);
      if (this.#isDue("counts", isChanged ? countsChanged : counts)) await this.#sendCounts();
      if (isChanged) await this.#sendChanged();
      if (this.#isPollDue()) await this.#pollJobs();
      if (this.#followed === null && this.#timer !== null) void this.#follow();
    } catch (error) {
      this.#send("outage", { message: messageOf(error) });
    } finally {
      this.#ticking = false;
    }
  }

  async #endUnauthorized(): Promise<void> {
    this.#readAt.callers = this.#ticks;
    const callers = new Map([...this.#clients.values()].map((caller) => [caller.name, caller]));
    for (const { name, isAuthorized } of callers.values()) {
      // While the store does not respond, it is not known.
      if (await isAuthorized().catch(() => true)) continue;
      for (const [client, other] of this.#clients) if (other.name === name) client.end();
    }
  }

  #isDue(read: Read, ticks: number): boolean {
    return this.#ticks - this.#readAt[read] >= ticks;
  }

  #isPollDue(): boolean {
    const { polled } = this.#pace;
    if (polled === null) return false;
    const wasChanged = !this.#isDue("changed", polled.changed);
    return this.#isDue("polled", wasChanged ? polled.changed : polled.unchanged);
  }

  /** This process has paused or resumed queues. */
  #readSoon(): void {
    this.#readAt = { ...this.#readAt, paused: NEVER, counts: NEVER };
  }

  async #sendCounts(): Promise<void> {
    const stats = await this.#stats.read();
    if (this.#isDue("paused", this.#pace.paused)) {
      this.#readAt.paused = this.#ticks;
      this.#isPaused = await this.#hf.isPaused();
    }
    this.#readAt.counts = this.#ticks;
    this.#running = stats.states.running;
    const text = this.#send("stats", statsResult(stats, this.#isPaused));
    if (text !== null) this.#sentCounts = ENCODER.encode(text);
  }

  async #sendChanged(): Promise<void> {
    this.#readAt.changed = this.#ticks;
    const id = [...this.#changed];
    this.#changed.clear();
    const { jobs } = await this.#hf.list({ id, limit: id.length, payloads: false, order: "oldest" });
    for (const job of jobs) {
      this.#sendLimited("job", jobSummary(job, this.#redact));
      this.#seen.set(job.id, { state: job.state, version: versionOf(job) });
    }
  }

  /** Progress and updates are not changes of state: those of the newest jobs, and of the newest running ones, are polled. */
  async #pollJobs(): Promise<void> {
    this.#readAt.polled = this.#ticks;
    const seen = new Map<string, Seen>();
    if (this.#isDue("searched", TICKS_BETWEEN_SEARCHES)) {
      this.#readAt.searched = this.#ticks;
      // In sequence, so that the feed uses only one connection to the store.
      const running = await this.#poll({}, seen);
      if (running < this.#running) await this.#poll({ state: "running" }, seen);
    } else {
      const known = [...this.#seen].map(([id, { state }]) => ({ id, isRunning: state === "running" }));
      const id = [true, false]
        .flatMap((isRunning) => known.filter((job) => job.isRunning === isRunning).slice(-2 * POLLED_JOBS))
        .map((job) => job.id);
      if (id.length > 0) await this.#poll({ id, limit: id.length }, seen);
    }
    this.#seen = seen;
  }

  /** Returns how many of the jobs are running. */
  async #poll(which: ListOptions, seen: Map<string, Seen>): Promise<number> {
    const { jobs } = await this.#hf.list({ limit: POLLED_JOBS, ...which, payloads: false });
    for (const job of jobs.toReversed()) {
      if (seen.has(job.id)) continue;
      const { state } = job;
      const before = this.#seen.get(job.id);
      const version = versionOf(job);
      seen.set(job.id, { state, version });
      if (before?.state === state && before.version !== version) {
        this.#sendLimited("job", jobSummary(job, this.#redact));
      }
    }
    return jobs.filter(({ state }) => state === "running").length;
  }

  /** On a busy store, further events of this tick are dropped. The counts of the next tick are still correct. */
  #sendLimited(name: string, event: unknown): void {
    if (this.#sent++ < MAX_PER_TICK) this.#send(name, event);
  }

  /** Returns the event; null if it was not sent. */
  #send(name: string, value: unknown): string | null {
    // The feed was stopped while a poll was in progress.
    if (this.#timer === null) return null;
    let text: string;
    try {
      text = `event: ${name}\ndata: ${JSON.stringify(shown(value, this.#redact))}\n\n`;
    } catch {
      return null;
    }
    this.#pending += text;
    const waitMs = Math.max(0, this.#deliveredAt + BATCH_MS - performance.now());
    this.#batchTimer ??= setTimeout(() => this.#deliver(), waitMs).unref();
    return text;
  }

  #deliver(): void {
    this.#batchTimer = null;
    this.#deliveredAt = performance.now();
    this.#buffer.push(ENCODER.encode(this.#pending));
    this.#pending = "";
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const client of waiting) client.deliver();
  }
}

function tooManyStreams(message: string): ApiError {
  return new ApiError(429, "TOO_MANY_STREAMS", message, { headers: { "retry-after": "5" } });
}

/** Changes if an event for the job should be sent although its state is the same. */
function versionOf({ attempt, queue, priority, state, dueAt, updatedAt, progress }: Job): string {
  // An update of a waiting job may change what this list does not show, such as the input. The due time of a leased job is the
  // end of its lease and changes often.
  const waiting = isWaiting(state) ? [dueAt, updatedAt] : null;
  return JSON.stringify([attempt, queue, priority, waiting, progress]);
}

/** Without outputs, which clients read with `jobs.get`, and with the data of a `progress` event redacted. */
function shown(value: unknown, redact: Redactor): unknown {
  if (typeof value !== "object" || value === null) return value;
  if ("data" in value) return redactProgress(value, redact);
  if (!("output" in value)) return value;
  const { output: _output, ...rest } = value;
  return rest;
}
