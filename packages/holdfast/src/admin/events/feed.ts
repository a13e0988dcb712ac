import type { Holdfast } from "../../engine/client/holdfast.js";
import type { EventName } from "../../engine/events/events.js";
import type { ListOptions } from "../../engine/client/filter.js";
import type { Job } from "../../job/job.js";
import { messageOf } from "../../job/thrown.js";
import { ApiError } from "../http/api-error.js";
import { jobSummary } from "../calls/serializers.js";
import { EventBuffer } from "./event-buffer.js";
import { statsAnswer } from "../calls/stats-result.js";
import { newViewer, type Viewer } from "./sse-client.js";

/** Events of the client's own process that viewers are told of as they come. */
const TOLD: readonly EventName[] = [
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
// What other processes do is seen by looking, once a tick: at the newest jobs, and where those are a backlog that nobody
// has come to yet, at the newest that somebody has.
const NEWEST = 100;
const LOOKS: readonly ListOptions[] = [
  {},
  { state: "running" },
  { state: ["completed", "failed", "dead", "cancelled"] },
];
const MAX_VIEWERS = 200;
const MAX_PER_TICK = 500;
// Events that come within this after others were sent are sent together: a viewer costs a few writes a second, however much happens.
const GATHER_MS = 200;
// A stream ends after this long, and the viewer comes again with a token that still counts.
const STREAM_MS = 300_000;
const ENCODER = new TextEncoder();

/**
 * What happens, as server-sent events: one feed for all viewers. They cost the store no more than one does, and an event is
 * written once for all of them. It rests while no viewer reads.
 */
export class Feed {
  readonly #hf: Holdfast;
  readonly #maxPerCaller: number;
  readonly #buffer = new EventBuffer();
  readonly #viewers = new Map<Viewer, string>();
  /** Those whose reader has asked for more than there is. */
  readonly #waiting = new Set<Viewer>();
  #off: (() => void)[] = [];
  #timer: NodeJS.Timeout | null = null;
  #gathering: NodeJS.Timeout | null = null;
  /** Events that are yet to be sent. */
  #text = "";
  #deliveredAt = Number.NEGATIVE_INFINITY;
  /** Whether a viewer has read anything since the last tick. */
  #isRead = false;
  /** How the newest jobs were at the last look; null before the first. */
  #seen: ReadonlyMap<string, string> | null = null;
  #sent = 0;
  #ticking = false;

  constructor(hf: Holdfast, { viewersPerCaller }: { viewersPerCaller: number }) {
    this.#hf = hf;
    this.#maxPerCaller = viewersPerCaller;
  }

  /** The body of a response that goes on until the viewer leaves. `caller`: who reads it, whose share is limited. */
  open(caller: string): ReadableStream<Uint8Array> {
    const mine = [...this.#viewers.values()].filter((other) => other === caller).length;
    if (mine >= this.#maxPerCaller) {
      throw tooMany(`this caller reads ${mine} streams of events already, as many as one may; close one`);
    }
    if (this.#viewers.size >= MAX_VIEWERS) throw tooMany(`${MAX_VIEWERS} viewers are connected already`);
    const viewer = newViewer(this.#buffer, {
      asked: (by, waits) => {
        if (waits) this.#waiting.add(by);
        this.#isRead = true;
        if (this.#timer === null) this.#begin();
      },
      left: (by) => {
        clearTimeout(ending);
        this.#waiting.delete(by);
        this.#viewers.delete(by);
        if (this.#viewers.size === 0) this.#rest();
      },
    });
    const ending = setTimeout(() => viewer.end(), STREAM_MS);
    ending.unref();
    this.#viewers.set(viewer, caller);
    return viewer.body;
  }

  close(): void {
    for (const viewer of this.#viewers.keys()) viewer.end();
  }

  #begin(): void {
    this.#off = TOLD.map((name) => this.#hf.on(name, (event) => this.#tell(name, event)));
    this.#timer = setInterval(() => void this.#tick(), TICK_MS);
    this.#timer.unref();
    void this.#tick();
  }

  #rest(): void {
    for (const off of this.#off) off();
    this.#off = [];
    if (this.#timer !== null) clearInterval(this.#timer);
    if (this.#gathering !== null) clearTimeout(this.#gathering);
    this.#timer = this.#gathering = null;
    this.#seen = null;
    this.#text = "";
    this.#deliveredAt = Number.NEGATIVE_INFINITY;
    this.#buffer.interrupt();
  }

  async #tick(): Promise<void> {
    this.#sent = 0;
    // All viewers have stopped reading: nothing is done until one of them goes on.
    if (!this.#isRead && this.#waiting.size === 0) return this.#rest();
    this.#isRead = false;
    // A store that is slow is not asked again before it has answered.
    if (this.#ticking) return;
    this.#ticking = true;
    try {
      this.#send("stats", statsAnswer(await this.#hf.stats()));
      await this.#look();
    } catch (error) {
      this.#send("outage", { message: messageOf(error) });
    } finally {
      this.#ticking = false;
    }
  }

  async #look(): Promise<void> {
    const seen = new Map<string, string>();
    const found: Job[] = [];
    // One after the other: viewers take no more than one connection from the jobs.
    for (const look of LOOKS) {
      const { jobs } = await this.#hf.list({ ...look, limit: NEWEST, payloads: false });
      found.push(...jobs.toReversed());
    }
    for (const job of found) {
      if (seen.has(job.id)) continue;
      const mark = `${job.state} ${job.attempt} ${job.progress?.fraction ?? ""} ${job.progress?.note ?? ""}`;
      seen.set(job.id, mark);
      if (this.#seen !== null && this.#seen.get(job.id) !== mark) this.#tell("job", jobSummary(job));
    }
    this.#seen = seen;
  }

  /** Of a busy queue not every step can be shown; the counts of the next tick tell the rest. */
  #tell(name: string, event: unknown): void {
    if (this.#sent++ < MAX_PER_TICK) this.#send(name, event);
  }

  #send(name: string, value: unknown): void {
    // The look that began before the last viewer stopped reading.
    if (this.#timer === null) return;
    try {
      this.#text += `event: ${name}\ndata: ${JSON.stringify(withoutPayload(value))}\n\n`;
    } catch {
      return;
    }
    const waitMs = Math.max(0, this.#deliveredAt + GATHER_MS - performance.now());
    this.#gathering ??= setTimeout(() => this.#deliver(), waitMs).unref();
  }

  #deliver(): void {
    this.#gathering = null;
    this.#deliveredAt = performance.now();
    this.#buffer.push(ENCODER.encode(this.#text));
    this.#text = "";
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const viewer of waiting) viewer.deliver();
  }
}

function tooMany(message: string): ApiError {
  return new ApiError(429, "TOO_MANY_VIEWERS", message, { headers: { "retry-after": "5" } });
}

/** Outputs are read by `jobs.get`, where redaction applies. */
function withoutPayload(value: unknown): unknown {
  if (typeof value !== "object" || value === null || !("output" in value)) return value;
  const { output: _output, ...rest } = value;
  return rest;
}
