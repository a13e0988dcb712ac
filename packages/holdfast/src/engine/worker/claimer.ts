import type { Timer } from "../../clock.js";
import { DEFAULTS, LIMITS } from "../../defaults.js";
import type { Claim, NewJob, Outcome } from "../../store.js";
import type { EngineContext, HeldLease } from "../context.js";
import { acceptClaim } from "./accept-claim.js";
import { released } from "./decide-outcome.js";
import { Prefetch } from "./prefetch.js";
import { settleInBackground } from "./settle-outcome.js";

interface ClaimerSettings {
  concurrency: number;
  queues: readonly string[] | null;
  types: readonly string[] | null;
  leaseMs: number;
  pollMs: number;
}

/** What the claimer needs from its worker. */
interface JobRunner {
  running(): number;
  start(lease: HeldLease): void;
  /** Continues a handler that already runs this job here, under the new lease. False if none does. */
  continueUnderNewLease(lease: HeldLease): boolean;
  extendLeases(): Promise<void>;
}

// A prefetched job that waits longer than this behind slow handlers is released for other workers.
const MAX_READY_MS = 1_000;
// How long handlers are started in one event-loop iteration.
const MAX_START_MS = 3;
// If the wall clock gains more than this on the monotonic clock, it was set, or the machine was asleep.
const CLOCK_STEP_MS = 1_000;
// With more unsettled outcomes than this, the store is the bottleneck, and more claims would not help.
const MAX_UNSETTLED = 4 * LIMITS.batchJobs;

/** Decides when to claim and how many jobs, and holds claimed jobs in order until the worker has free capacity. */
export class Claimer {
  readonly #engine: EngineContext;
  readonly #worker: string;
  readonly #settings: ClaimerSettings;
  readonly #runner: JobRunner;
  readonly #prefetch = new Prefetch();

  /** Claimed jobs that wait for capacity, from `#nextReady` on. */
  #ready: HeldLease[] = [];
  #nextReady = 0;
  #readyTimer: Timer | null = null;

  #active = false;
  #paused = false;
  #stopped = false;

  readonly #claims = new Set<Promise<void>>();
  /** Claims in flight, and how many jobs they asked for. */
  #inFlight = 0;
  #expected = 0;
  /** A claim waits to be sent with the settler's next batch. */
  #isClaimQueued = false;
  /** Jobs to claim beyond the free capacity, because the last claims returned only jobs that must not run. */
  #extra = 0;
  /** The last claim returned fewer jobs than asked for: only a hint, the poll timer or a due time justifies another. */
  #isShortOfJobs = false;
  /** Claims in a row that returned nothing. */
  #emptyClaims = 0;
  #wakeCount = 0;
  #failures = 0;
  /** How far the wall clock was ahead of the monotonic clock at the last claim. */
  #wallAhead: number | null = null;

  #pollTimer: Timer | null = null;
  #pollAt = Number.POSITIVE_INFINITY;

  #starting = false;
  /** Monotonic time at which this event-loop iteration started its first handler. */
  #iterationStart: number | null = null;

  constructor(engine: EngineContext, worker: string, settings: ClaimerSettings, runner: JobRunner) {
    this.#engine = engine;
    this.#worker = worker;
    this.#settings = settings;
    this.#runner = runner;
  }

  start(): void {
    this.#active = true;
    this.#engine.insertListeners.add(this.#claimWithInsert);
    this.#wakeIn(this.#settings.pollMs);
    this.startAndClaim();
  }

  /** Stops claiming and releases jobs that have not started. */
  async stop(): Promise<void> {
    this.#active = false;
    this.#stopped = true;
    this.#engine.insertListeners.delete(this.#claimWithInsert);
    this.#pollTimer?.cancel();
    this.#readyTimer?.cancel();
    // Twice: now, so that a handler that ends cannot start one of them, and again for jobs of claims that were still in flight.
    this.#releaseReady();
    await Promise.all(this.#claims);
    this.#releaseReady();
  }

  /** Stops claiming until `resume`; jobs that were claimed but have not started are released. Running jobs continue. */
  pause(): void {
    this.#paused = true;
    this.#releaseReady();
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#poll();
  }

  /** Jobs are being inserted: an idle worker claims in the same event-loop iteration, and one transaction serves both. */
  readonly #claimWithInsert = (jobs: readonly NewJob[]): void => {
    const { queues, types } = this.#settings;
    const isOurs = jobs.some(
      (job) =>
        job.delayMs === 0 &&
        job.runAt === null &&
        (queues === null || queues.includes(job.queue)) &&
        (types === null || types.includes(job.type)),
    );
    if (isOurs) this.wake(0);
  };

  /** Jobs may be due, now or in a while. */
  wake(inMs: number): void {
    if (inMs > 0) {
      if (this.#active) this.#wakeIn(inMs);
      return;
    }
    this.#emptyClaims = 0;
    this.#poll();
  }

  #poll(): void {
    this.#isShortOfJobs = false;
    this.#wakeCount++;
    this.startAndClaim();
  }

  /** Claimed jobs that have not started. */
  ready(): HeldLease[] {
    if (this.#nextReady > 0) {
      this.#ready.splice(0, this.#nextReady);
      this.#nextReady = 0;
    }
    return this.#ready;
  }

  /** Removes a job from the ready ones. False if it is not among them. */
  drop(lease: HeldLease): boolean {
    const at = this.ready().indexOf(lease);
    if (at >= 0) this.#ready.splice(at, 1);
    return at >= 0;
  }

  /** A handler ended after this long. */
  recordDuration(ms: number): void {
    this.#prefetch.recordDuration(ms);
  }

  /** Starts ready jobs while capacity is free, and claims more when needed. */
  startAndClaim(): void {
    // A handler that ends synchronously calls this again from within start(); the outer loop continues for it.
    if (this.#starting) return;
    this.#starting = true;
    while (this.#runner.running() < this.#settings.concurrency && this.#nextReady < this.#ready.length) {
      if (this.#mustYield()) break;
      const lease = this.#ready[this.#nextReady++] as HeldLease;
      this.#runner.start(lease);
    }
    if (this.#nextReady === this.#ready.length) this.ready();
    this.#starting = false;
    this.#claimIfNeeded();
    this.#watchReady();
  }

  /**
   * Fast handlers end in the event-loop iteration in which they started and free their capacity for the next. Without a limit
   * a whole batch would run before the application's timers and sockets are served.
   */
  #mustYield(): boolean {
    const now = this.#engine.clock.monotonic();
    if (this.#iterationStart === null) {
      this.#iterationStart = now;
      setImmediate(() => {
        this.#iterationStart = null;
        if (this.#nextReady < this.#ready.length) this.startAndClaim();
      });
    }
    return now - this.#iterationStart > MAX_START_MS;
  }

  /** Claims once and starts what capacity is free for. Returns how many jobs were claimed. */
  async claimOnce(limit: number): Promise<number> {
    const sentAt = this.#engine.clock.monotonic();
    const claiming = this.#engine.store.claim(this.#request(limit)).then((claim) => {
      this.#receive(claim, sentAt);
      // If the worker was stopped meanwhile, stop() releases them.
      if (!this.#stopped) this.startAndClaim();
      return claim.jobs.length;
    });
    const ended = claiming.then(
      () => {},
      () => {},
    );
    this.#claims.add(ended);
    return claiming.finally(() => this.#claims.delete(ended));
  }

  #request(limit: number): Parameters<EngineContext["store"]["claim"]>[0] {
    const { queues, types, leaseMs } = this.#settings;
    return { queues, types, limit, bytes: LIMITS.batchBytes, worker: this.#worker, leaseMs };
  }

  /** Claims if capacity is free; together with outcomes that are about to be sent, so that one transaction serves both. */
  #claimIfNeeded(): void {
    if (this.#isClaimQueued || this.#claimLimit() === 0) return;
    const claim = (): void => {
      this.#isClaimQueued = false;
      const limit = this.#claimLimit();
      if (limit === 0) return;
      this.#inFlight++;
      this.#expected += limit;
      const claiming = this.#claim(limit).finally(() => {
        this.#claims.delete(claiming);
        if (this.#active) this.startAndClaim();
      });
      this.#claims.add(claiming);
    };
    this.#isClaimQueued = this.#engine.settler.callWithNextBatch(claim);
    if (!this.#isClaimQueued) claim();
  }

  /** How many jobs to claim now; 0 if a claim is not worthwhile. */
  #claimLimit(): number {
    const { settler } = this.#engine;
    if (!this.#active || this.#paused || this.#isShortOfJobs || !settler.healthy || settler.size > MAX_UNSETTLED)
      return 0;
    const free = this.#settings.concurrency - this.#runner.running();
    // Negative after the concurrency was lowered.
    if (free < 0) return 0;
    const readyOrExpected = this.#ready.length - this.#nextReady + this.#expected;
    const prefetchCount = Math.max(this.#extra, this.#prefetch.target(this.#settings.concurrency));
    // With fast handlers two claims may be in flight: the store then works on the second while the first returns.
    const needed =
      (this.#inFlight === 0 && free > readyOrExpected) || (prefetchCount > 0 && readyOrExpected <= prefetchCount / 2);
    return needed && this.#inFlight < 2 ? Math.min(LIMITS.batchJobs, free + prefetchCount - readyOrExpected) : 0;
  }

  async #claim(limit: number): Promise<void> {
    const wakes = this.#wakeCount;
    // When the wall clock jumps forward, this worker's leases look expired to the store. It extends them before it claims.
    if (this.#clockJumpedForward()) await this.#runner.extendLeases();
    const sentAt = this.#engine.clock.monotonic();
    try {
      const claim = await this.#engine.store.claim(this.#request(limit)).finally(() => {
        this.#inFlight--;
        this.#expected -= limit;
      });
      if (this.#failures > 0) this.#engine.events.emit("outageEnded", { doing: "claim" });
      this.#failures = 0;
      this.#receive(claim, sentAt);
      if (this.#paused) this.#releaseReady();
      this.#emptyClaims = claim.jobs.length === 0 ? this.#emptyClaims + 1 : 0;
      if (isShort(claim, limit) && this.#wakeCount === wakes) this.#isShortOfJobs = true;
      if (claim.nextDueAt !== null) this.#wakeIn(Math.max(1, claim.nextDueAt - claim.at));
      // Before the handlers run, so that the store works on the next claim meanwhile.
      this.#claimIfNeeded();
    } catch (error) {
      if (this.#failures++ === 0) this.#engine.events.emit("outage", { doing: "claim", error });
      this.#isShortOfJobs = true;
      this.#wakeIn(Math.min(this.#settings.pollMs, 50 * 2 ** Math.min(this.#failures, 10)));
    }
  }

  #clockJumpedForward(): boolean {
    const ahead = this.#engine.clock.now() - this.#engine.clock.monotonic();
    const before = this.#wallAhead ?? ahead;
    this.#wallAhead = ahead;
    return ahead - before > CLOCK_STEP_MS;
  }

  #receive(claim: Claim, sentAt: number): void {
    const call = { worker: this.#worker, sentAt, leaseMs: this.#settings.leaseMs };
    const accepted = acceptClaim(this.#engine, claim, call, {
      continueUnderNewLease: (lease) => this.#runner.continueUnderNewLease(lease),
      reject: (lease, outcome) => this.#settle(lease, outcome),
    });
    for (const lease of accepted) this.#ready.push(lease);
    // If all of them were rejected (expired jobs at the front of the queue, say), the next claims double in size.
    const allRejected = claim.jobs.length > 0 && accepted.length === 0;
    this.#extra = allRejected ? Math.min(LIMITS.batchJobs, Math.max(this.#extra, claim.jobs.length) * 2) : 0;
  }

  #settle(lease: HeldLease, outcome: Outcome): void {
    settleInBackground(this.#engine, lease, outcome, this.#emitOutage);
  }

  readonly #emitOutage = (_lease: HeldLease, _outcome: Outcome, error: Error): void => {
    this.#engine.events.emit("outage", { doing: "settle", error });
  };

  /** Releases prefetched jobs if handlers turn out to be slow: other workers may have free capacity for them. */
  #watchReady(): void {
    const hasReady = this.#active && this.#ready.length > this.#nextReady;
    if (!hasReady) {
      this.#readyTimer?.cancel();
      this.#readyTimer = null;
      return;
    }
    const first = this.#ready[this.#nextReady];
    this.#readyTimer ??= this.#engine.clock.after(MAX_READY_MS, () => {
      this.#readyTimer = null;
      if (this.#ready[this.#nextReady] === first && this.#active) {
        this.#prefetch.recordDuration(MAX_READY_MS);
        this.#releaseReady();
      } else this.#watchReady();
    });
  }

  #releaseReady(): void {
    for (const lease of this.ready().splice(0)) {
      this.#settle(lease, released(lease, this.#engine.clock.now()));
    }
  }

  /** One timer serves polling, due times and pauses after an error: it fires at the earliest of them. */
  #wakeIn(ms: number): void {
    if (!this.#active) return;
    const at = this.#engine.clock.monotonic() + Math.min(ms, this.#pollPauseMs());
    if (this.#pollTimer !== null && this.#pollAt <= at) return;
    this.#pollTimer?.cancel();
    this.#pollAt = at;
    this.#pollTimer = this.#engine.clock.after(at - this.#engine.clock.monotonic(), () => {
      this.#pollTimer = null;
      if (!this.#active) return;
      this.#wakeIn(this.#pollPauseMs());
      this.#poll();
    });
  }

  /** The time between two polls. On a store that charges per request, it doubles with every poll that finds nothing. */
  #pollPauseMs(): number {
    const { pollMs } = this.#settings;
    if (!this.#engine.store.capabilities.metered) return pollMs;
    return Math.max(pollMs, Math.min(DEFAULTS.meteredPollMs, pollMs * 2 ** Math.min(this.#emptyClaims, 20)));
  }
}

/** Whether a claim returned fewer jobs than asked for. One that reached its byte limit does not count: more jobs are due. */
function isShort(claim: Claim, limit: number): boolean {
  if (claim.jobs.length >= limit) return false;
  let bytes = 0;
  for (const job of claim.jobs) bytes += Buffer.byteLength(job.input);
  return bytes < LIMITS.batchBytes - LIMITS.payloadBytes;
}
