import type { Timer } from "../clock.js";
import { LIMITS } from "../defaults.js";
import { STALE_ERROR } from "../state.js";
import type { Claim } from "../store.js";
import { announce } from "./announce.js";
import { holdLease, leaseEvent, type Core, type HeldLease } from "./core.js";
import { released, triage } from "./outcome.js";
import { Prefetch } from "./prefetch.js";

interface ClaimerSettings {
  concurrency: number;
  queues: readonly string[] | null;
  types: readonly string[] | null;
  leaseMs: number;
  pollMs: number;
}

interface Slots {
  running(): number;
  begin(lease: HeldLease): void;
}

// Held longer than this behind slow handlers, a claimed job is given back for others to take.
const READY_MS = 1_000;
// More outcomes than this on their way: the store is the bottleneck, and claiming more would not help.
const UNSETTLED = 4 * LIMITS.batchJobs;

/** Decides when to claim and how much, and keeps the claimed jobs in order until a slot is free. */
export class Claimer {
  readonly #core: Core;
  readonly #worker: string;
  readonly #settings: ClaimerSettings;
  readonly #slots: Slots;
  readonly #prefetch = new Prefetch();
  #ready: HeldLease[] = [];
  #head = 0;
  #active = false;
  #claiming: Promise<void> | null = null;
  /** The last claim came back short: only a hint, the poll timer or a due time makes another worthwhile. */
  #dry = false;
  #wokenMeanwhile = false;
  #failures = 0;
  #timer: Timer | null = null;
  #timerAt = Number.POSITIVE_INFINITY;
  #giveBackTimer: Timer | null = null;
  #pumping = false;

  constructor(core: Core, worker: string, settings: ClaimerSettings, slots: Slots) {
    this.#core = core;
    this.#worker = worker;
    this.#settings = settings;
    this.#slots = slots;
  }

  start(): void {
    this.#active = true;
    this.#wakeIn(this.#settings.pollMs);
    this.pump();
  }

  /** Stops claiming and gives back what is held but not begun. */
  async stop(): Promise<void> {
    this.#active = false;
    this.#timer?.cancel();
    this.#giveBackTimer?.cancel();
    if (this.#claiming !== null) await this.#claiming;
    this.#giveBack();
  }

  /** Something may be due, now or in a while. */
  wake(inMs: number): void {
    if (inMs > 0) {
      if (this.#active) this.#wakeIn(inMs);
      return;
    }
    this.#dry = false;
    if (this.#claiming === null) this.pump();
    else this.#wokenMeanwhile = true;
  }

  /** Claimed and not begun. */
  ready(): HeldLease[] {
    if (this.#head > 0) {
      this.#ready.splice(0, this.#head);
      this.#head = 0;
    }
    return this.#ready;
  }

  /** Takes one out of the ready ones; false if it is not there. */
  drop(lease: HeldLease): boolean {
    const at = this.ready().indexOf(lease);
    if (at >= 0) this.#ready.splice(at, 1);
    return at >= 0;
  }

  ran(ms: number): void {
    this.#prefetch.ran(ms);
  }

  /** Fills free slots, and claims when there is room for more. */
  pump(): void {
    // A handler that ends at once comes back here from within begin(); the loop outside goes on for it.
    if (this.#pumping) return;
    this.#pumping = true;
    while (this.#slots.running() < this.#settings.concurrency && this.#head < this.#ready.length) {
      const lease = this.#ready[this.#head++] as HeldLease;
      this.#slots.begin(lease);
    }
    if (this.#head === this.#ready.length) this.ready();
    this.#pumping = false;
    if (this.#active && !this.#dry && this.#claiming === null) this.#claimIfRoom();
    this.#watchReady();
  }

  async claimOnce(limit: number): Promise<{ total: number; begun: number }> {
    const sentAt = this.#core.clock.monotonic();
    const claim = await this.#core.store.claim(this.#request(limit));
    const begun = this.#receive(claim, sentAt);
    this.pump();
    return { total: claim.jobs.length, begun };
  }

  #request(limit: number): Parameters<Core["store"]["claim"]>[0] {
    const { queues, types, leaseMs } = this.#settings;
    return { queues, types, limit, bytes: LIMITS.batchBytes, worker: this.#worker, leaseMs };
  }

  #claimIfRoom(): void {
    const { settler } = this.#core;
    const free = this.#settings.concurrency - this.#slots.running();
    const waiting = this.#ready.length - this.#head;
    const ahead = this.#prefetch.target(this.#settings.concurrency);
    const worthwhile = free > waiting || (ahead > 0 && waiting <= ahead / 2);
    if (!worthwhile || !settler.healthy || settler.size > UNSETTLED) return;
    const limit = Math.min(LIMITS.batchJobs, free + ahead - waiting);
    this.#claiming = this.#claim(limit).finally(() => {
      this.#claiming = null;
      if (this.#active) this.pump();
    });
  }

  async #claim(limit: number): Promise<void> {
    this.#wokenMeanwhile = false;
    const sentAt = this.#core.clock.monotonic();
    try {
      const claim = await this.#core.store.claim(this.#request(limit));
      if (this.#failures > 0) this.#core.events.emit("back", { doing: "claim" });
      this.#failures = 0;
      this.#receive(claim, sentAt);
      if (cameShort(claim, limit) && !this.#wokenMeanwhile) this.#dry = true;
      if (claim.nextDueAt !== null) this.#wakeIn(Math.max(1, claim.nextDueAt - claim.at));
    } catch (error) {
      if (this.#failures++ === 0) this.#core.events.emit("outage", { doing: "claim", error });
      this.#dry = true;
      this.#wakeIn(Math.min(this.#settings.pollMs, 50 * 2 ** Math.min(this.#failures, 10)));
    }
  }

  /** Lays down what must not run and keeps the rest. Answers how many are kept. */
  #receive(claim: Claim, sentAt: number): number {
    const { events, logger } = this.#core;
    // The lease counts from before the call: the store may have granted it at any time since.
    const deadline = sentAt + this.#settings.leaseMs;
    let kept = 0;
    for (const job of claim.jobs) {
      const lease = holdLease(job, this.#worker, claim.at, deadline);
      if (events.hears("claimed")) events.emit("claimed", leaseEvent(lease));
      if (job.previous.state === "claimed" || job.previous.state === "running") {
        events.emit("recovered", { id: job.id, type: job.type, queue: job.queue, to: "claimed" });
        logger.warn({ job: job.id, type: job.type, attempt: job.attempt }, STALE_ERROR.message);
      }
      const laidDown = triage(lease, claim.at);
      if (laidDown === null) {
        this.#ready.push(lease);
        kept++;
      } else {
        this.#core.settler.add(laidDown, deadline, (answer) => {
          if (!(answer instanceof Error)) announce(this.#core, lease, laidDown, answer);
        });
      }
    }
    return kept;
  }

  /** Jobs held ready behind handlers that turned out slow go back, so that other workers can have them. */
  #watchReady(): void {
    const holds = this.#active && this.#ready.length > this.#head;
    if (!holds) {
      this.#giveBackTimer?.cancel();
      this.#giveBackTimer = null;
      return;
    }
    const first = this.#ready[this.#head];
    this.#giveBackTimer ??= this.#core.clock.after(READY_MS, () => {
      this.#giveBackTimer = null;
      if (this.#ready[this.#head] === first && this.#active) {
        this.#prefetch.ran(READY_MS);
        this.#giveBack();
      } else this.#watchReady();
    });
  }

  #giveBack(): void {
    for (const lease of this.ready().splice(0)) {
      const outcome = released(lease);
      this.#core.settler.add(outcome, lease.deadline, (answer) => {
        if (!(answer instanceof Error)) announce(this.#core, lease, outcome, answer);
      });
    }
  }

  /** One timer serves polling, due times and pauses after an error: it fires at the nearest of them. */
  #wakeIn(ms: number): void {
    const at = this.#core.clock.monotonic() + Math.min(ms, this.#settings.pollMs);
    if (this.#timer !== null && this.#timerAt <= at) return;
    this.#timer?.cancel();
    this.#timerAt = at;
    this.#timer = this.#core.clock.after(at - this.#core.clock.monotonic(), () => {
      this.#timer = null;
      if (!this.#active) return;
      this.#wakeIn(this.#settings.pollMs);
      this.wake(0);
    });
  }
}

/** A claim cut by its byte limit is not short: there is more where it came from. */
function cameShort(claim: Claim, limit: number): boolean {
  if (claim.jobs.length >= limit) return false;
  let bytes = 0;
  for (const job of claim.jobs) bytes += job.input.length;
  return bytes < LIMITS.batchBytes - LIMITS.payloadBytes;
}
