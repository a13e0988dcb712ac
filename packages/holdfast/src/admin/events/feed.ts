import type { Holdfast } from "../../engine/client/holdfast.js";
import type { EventName } from "../../engine/events/events.js";
import { messageOf } from "../../job/thrown.js";
import { ApiError } from "../http/api-error.js";
import type { Redactor } from "../../redact.js";
import { jobSummary, redactProgress } from "../calls/serializers.js";
import { EventBuffer } from "./event-buffer.js";
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
// Jobs that changed in any process are read and sent together, this many at most.
const MAX_JOBS_PER_TICK = 500;
const POLLED_JOBS = 100;
const MAX_CLIENTS = 200;
const MAX_PER_TICK = 500;
// Events within this time are sent together, so that each client costs only a few writes per second.
const BATCH_MS = 200;
// Streams end after this time. Clients reconnect, and their token is verified again.
const STREAM_MS = 300_000;
const ENCODER = new TextEncoder();

/**
 * Job events as server-sent events. All clients share one feed: it follows the jobs of all processes once for all of them, and each
 * event is serialized once. The feed stops while no client reads.
 */
export class Feed {
  readonly #hf: Holdfast;
  readonly #maxPerCaller: number;
  readonly #redact: Redactor;
  readonly #buffer = new EventBuffer();
  /** With the caller of each. */
  readonly #clients = new Map<SseClient, string>();
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
  /** The progress of running jobs at the last tick, as JSON. */
  #progress: ReadonlyMap<string, string> = new Map();
  #sent = 0;
  #ticking = false;

  constructor(hf: Holdfast, { streamsPerCaller, redact }: { streamsPerCaller: number; redact: Redactor }) {
    this.#hf = hf;
    this.#redact = redact;
    this.#maxPerCaller = streamsPerCaller;
  }

  /** Returns the body of a response. It ends when the client disconnects. `caller`: for the limit per caller. */
  open(caller: string): ReadableStream<Uint8Array> {
    const mine = [...this.#clients.values()].filter((other) => other === caller).length;
    if (mine >= this.#maxPerCaller) {
      throw tooManyStreams(`this caller has ${mine} open event streams, the maximum; close one`);
    }
    if (this.#clients.size >= MAX_CLIENTS)
      throw tooManyStreams(`the server has ${MAX_CLIENTS} open event streams, the maximum; retry later`);
    const client = newSseClient(this.#buffer, {
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
    const maxAge = setTimeout(() => client.end(), STREAM_MS);
    maxAge.unref();
    this.#clients.set(client, caller);
    return client.body;
  }

  close(): void {
    for (const client of this.#clients.keys()) client.end();
  }

  #start(): void {
    this.#off = FORWARDED_EVENTS.map((name) => this.#hf.on(name, (event) => this.#sendLimited(name, event)));
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
      for await (const { id } of this.#hf.follow({ signal: ended.signal })) {
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
    this.#progress = new Map();
    this.#pending = "";
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
    try {
      this.#send("stats", statsResult(await this.#hf.stats(), await this.#hf.isPaused()));
      await this.#sendChanged();
      await this.#sendProgress();
      if (this.#followed === null && this.#timer !== null) void this.#follow();
    } catch (error) {
      this.#send("outage", { message: messageOf(error) });
    } finally {
      this.#ticking = false;
    }
  }

  async #sendChanged(): Promise<void> {
    if (this.#changed.size === 0) return;
    const id = [...this.#changed];
    this.#changed.clear();
    const { jobs } = await this.#hf.list({ id, limit: id.length, payloads: false, order: "oldest" });
    for (const job of jobs) this.#sendLimited("job", jobSummary(job, this.#redact));
  }

  /** Progress is not a change of state: that of the newest running jobs is polled. */
  async #sendProgress(): Promise<void> {
    const { jobs } = await this.#hf.list({ state: "running", limit: POLLED_JOBS, payloads: false });
    const seen = new Map(jobs.map((job) => [job.id, JSON.stringify(job.progress)]));
    for (const job of jobs.toReversed()) {
      const before = this.#progress.get(job.id);
      if (before !== undefined && before !== seen.get(job.id)) this.#sendLimited("job", jobSummary(job, this.#redact));
    }
    this.#progress = seen;
  }

  /** On a busy store, further events of this tick are dropped. The counts of the next tick are still correct. */
  #sendLimited(name: string, event: unknown): void {
    if (this.#sent++ < MAX_PER_TICK) this.#send(name, event);
  }

  #send(name: string, value: unknown): void {
    // The feed was stopped while a poll was in progress.
    if (this.#timer === null) return;
    try {
      this.#pending += `event: ${name}\ndata: ${JSON.stringify(shown(value, this.#redact))}\n\n`;
    } catch {
      return;
    }
    const waitMs = Math.max(0, this.#deliveredAt + BATCH_MS - performance.now());
    this.#batchTimer ??= setTimeout(() => this.#deliver(), waitMs).unref();
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

/** Without outputs, which clients read with `jobs.get`, and with the data of a `progress` event redacted. */
function shown(value: unknown, redact: Redactor): unknown {
  if (typeof value !== "object" || value === null) return value;
  if ("data" in value) return redactProgress(value, redact);
  if (!("output" in value)) return value;
  const { output: _output, ...rest } = value;
  return rest;
}
