import type { Holdfast } from "../engine/holdfast.js";
import type { EventName } from "../engine/events.js";
import type { ListOptions } from "../engine/filter.js";
import type { Job } from "../job.js";
import { ApiError } from "./api-error.js";
import { jobSummary } from "./answers.js";
import { statsAnswer } from "./stats-answer.js";
import { newViewer, type Viewer } from "./viewer.js";

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
const MOST_VIEWERS = 200;
const MOST_PER_TICK = 500;
// A stream ends after this long, and the viewer comes again with a token that still counts.
const STREAM_MS = 300_000;
const ENCODER = new TextEncoder();

/**
 * What happens, as server-sent events: one feed for all viewers, so that they cost the store no more than one does. It rests
 * while nobody looks.
 */
export class Feed {
  readonly #hf: Holdfast;
  readonly #viewers = new Set<Viewer>();
  #off: (() => void)[] = [];
  #timer: NodeJS.Timeout | null = null;
  /** How the newest jobs were at the last look; null before the first. */
  #seen: ReadonlyMap<string, string> | null = null;
  #sent = 0;
  #ticking = false;

  constructor(hf: Holdfast) {
    this.#hf = hf;
  }

  /** The body of an answer that goes on until the viewer leaves. */
  open(): ReadableStream<Uint8Array> {
    if (this.#viewers.size >= MOST_VIEWERS) {
      throw new ApiError(429, "TOO_MANY_VIEWERS", `${MOST_VIEWERS} viewers are connected already`);
    }
    const viewer = newViewer(() => {
      clearTimeout(ending);
      this.#viewers.delete(viewer);
      if (this.#viewers.size === 0) this.#rest();
    });
    const ending = setTimeout(() => viewer.end(), STREAM_MS);
    ending.unref();
    this.#viewers.add(viewer);
    viewer.send(ENCODER.encode("retry: 2000\n\n"));
    if (this.#viewers.size === 1) this.#begin();
    return viewer.body;
  }

  close(): void {
    for (const viewer of this.#viewers) viewer.end();
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
    this.#timer = null;
    this.#seen = null;
  }

  async #tick(): Promise<void> {
    this.#sent = 0;
    // A store that is slow is not asked again before it has answered.
    if (this.#ticking) return;
    this.#ticking = true;
    try {
      this.#send("stats", statsAnswer(await this.#hf.stats()));
      await this.#look();
    } catch (error) {
      this.#send("outage", { message: error instanceof Error ? error.message : String(error) });
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
    if (this.#sent++ < MOST_PER_TICK) this.#send(name, event);
  }

  #send(name: string, value: unknown): void {
    let text: string;
    try {
      text = `event: ${name}\ndata: ${JSON.stringify(withoutPayload(value))}\n\n`;
    } catch {
      return;
    }
    const message = ENCODER.encode(text);
    for (const viewer of this.#viewers) viewer.send(message);
  }
}

/** Outputs are read by `jobs.get`, where redaction applies. */
function withoutPayload(value: unknown): unknown {
  if (typeof value !== "object" || value === null || !("output" in value)) return value;
  const { output: _output, ...rest } = value;
  return rest;
}
