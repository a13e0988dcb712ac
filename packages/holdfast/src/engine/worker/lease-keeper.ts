import { hostname } from "node:os";
import type { Timer } from "../../clock.js";
import { DEFAULTS, LIMITS } from "../../defaults.js";
import type { WorkerRecord } from "../../store.js";
import { leaseEvent, type EngineContext, type HeldLease } from "../context.js";
import { BUSY } from "../retry-busy.js";
import { version } from "../version.js";
import type { Run } from "./run.js";

interface KeeperSettings {
  concurrency: number;
  queues: readonly string[] | null;
  types: readonly string[] | null;
  leaseMs: number;
}

/** What the keeper needs from its worker. */
interface KeeperCallbacks {
  id: string;
  runs(): ReadonlySet<Run>;
  ready(): readonly HeldLease[];
  dropReady(lease: HeldLease): void;
  lost(run: Run): void;
  cancel(id: string): void;
  timedOut(run: Run): void;
  abandon(run: Run): void;
  /** After each heartbeat: whether the worker is to claim no more jobs. */
  setDraining(draining: boolean): void;
}

// How long the list of workers is cached. Reading it for every job of an unknown type would cost more than the jobs.
const WORKERS_CACHE_MS = 5_000;
// Several schedules defined in a row are published in one heartbeat.
const SCHEDULES_DELAY_MS = 50;
// Running jobs in the record of a worker whose store charges by the kilobyte: the record stays smaller than one.
const METERED_JOBS = 5;
// Pause between two checks of cancellation hints, once a hint turned out to be wrong.
const CONFIRM_PAUSE = { minMs: 50, maxMs: 5_000 };

/**
 * Extends the leases of a worker, writes its heartbeat, and enforces deadlines.
 *
 * A lease must never expire while its handler runs, and a process that was suspended must not believe it still holds one:
 *
 * - All leases are extended together after a third of the lease time. Two calls can fail before a lease expires.
 * - A deadline is counted from before the call that granted it and by the monotonic clock, so that neither a slow response nor
 *   a wall clock that was set makes a lease look longer than it is in the store.
 * - A second timer fires at the nearest timeout or deadline. A lease that was not extended by then is lost: its handler's
 *   signal is aborted, whether or not the store can be reached.
 */
export class LeaseKeeper {
  readonly #engine: EngineContext;
  readonly #settings: KeeperSettings;
  readonly #callbacks: KeeperCallbacks;
  readonly #startedAt: number;
  readonly #version: string = version();
  readonly #maxListedJobs: number;
  #stopped = false;

  /** Extends all leases and writes the heartbeat, every third of a lease. */
  #extendTimer: Timer | null = null;
  #extending: Promise<void> | null = null;
  /** Extends again soon, because some rows were locked. */
  #busyTimer: Timer | null = null;

  /** Writes heartbeats between the extensions of a long lease. */
  #heartbeatTimer: Timer | null = null;
  #heartbeat: Promise<void> | null = null;
  #schedulesTimer: Timer | null = null;
  /** The store may have a record of this worker, which `stop` marks as stopped. */
  #isRegistered = false;

  /** Fires at the nearest timeout or lease deadline, and when an aborted handler is to be abandoned. */
  #deadlineTimer: Timer | null = null;
  #deadlineAt = Number.POSITIVE_INFINITY;

  /** Jobs that cancellation hints named, to be confirmed by the store. */
  #hinted = new Set<string>();
  #confirming: Promise<void> | null = null;
  #confirmTimer: Timer | null = null;
  #confirmPauseMs = 0;
  #confirmNotBefore = Number.NEGATIVE_INFINITY;

  /** Job types of all workers with a recent heartbeat, cached. */
  #recentTypes: { at: number; types: Promise<Set<string> | null> } | null = null;

  constructor(engine: EngineContext, settings: KeeperSettings, callbacks: KeeperCallbacks) {
    this.#engine = engine;
    this.#settings = settings;
    this.#callbacks = callbacks;
    this.#startedAt = engine.clock.now();
    this.#maxListedJobs = engine.store.capabilities.metered ? METERED_JOBS : LIMITS.workerJobs;
  }

  /** Extends leases and registers the worker, so that other processes know which types it runs. */
  start(): void {
    this.#engine.scheduleDefinedListeners.add(this.#publishSchedules);
    this.#extendAndHeartbeat();
    this.extendPeriodically();
    // A worker counts as gone after 60 s without a heartbeat; a third of a longer lease would be too late.
    if (this.#settings.leaseMs > DEFAULTS.silentWorkerMs) this.#heartbeatPeriodically();
  }

  /** Extends leases without registering the worker. It registers with the first extension. */
  extendPeriodically(): void {
    const onTimer = (): void => {
      this.extendPeriodically();
      this.#extendAndHeartbeat();
    };
    this.#extendTimer = this.#engine.clock.after(this.#settings.leaseMs / 3, onTimer, { background: true });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#engine.scheduleDefinedListeners.delete(this.#publishSchedules);
    this.#schedulesTimer?.cancel();
    this.#extendTimer?.cancel();
    this.#busyTimer?.cancel();
    this.#deadlineTimer?.cancel();
    this.#heartbeatTimer?.cancel();
    this.#confirmTimer?.cancel();
    await Promise.all([this.#extending, this.#heartbeat, this.#confirming]);
    if (!this.#isRegistered) return;
    await this.#engine.store
      .deregister(this.#callbacks.id)
      .catch((error: unknown) => this.#emitOutage("deregister", error));
  }

  /** Extends every lease now, or waits for the extension in flight. */
  extendNow(): Promise<void> {
    this.#extendAndHeartbeat();
    return this.#extending ?? Promise.resolve();
  }

  /**
   * A hint says that these jobs are to be cancelled. Hints can be wrong (any PostgreSQL role can send them), so the store is
   * asked: in one call for all hinted jobs that are held here, and less and less often while the hints are wrong.
   */
  confirmCancellation(ids: readonly string[]): void {
    const hinted = new Set(ids);
    for (const { job } of this.#held(({ job }) => hinted.has(job.id)).leases) this.#hinted.add(job.id);
    this.#confirmSoon();
  }

  #confirmSoon(): void {
    if (this.#hinted.size === 0 || this.#confirming !== null || this.#confirmTimer !== null) return;
    const ms = this.#confirmNotBefore - this.#engine.clock.monotonic();
    if (ms <= 0) {
      this.#confirming = this.#confirmHinted();
      return;
    }
    const onTimer = (): void => {
      this.#confirmTimer = null;
      this.#confirmSoon();
    };
    this.#confirmTimer = this.#engine.clock.after(ms, onTimer, { background: true });
  }

  async #confirmHinted(): Promise<void> {
    const hinted = this.#hinted;
    this.#hinted = new Set();
    // An extension reports cancellations, so it doubles as the check.
    const anyCancelled = await this.#extend(({ job }) => hinted.has(job.id));
    const longer = Math.min(CONFIRM_PAUSE.maxMs, Math.max(CONFIRM_PAUSE.minMs, 2 * this.#confirmPauseMs));
    this.#confirmPauseMs = anyCancelled ? 0 : longer;
    this.#confirmNotBefore = this.#engine.clock.monotonic() + this.#confirmPauseMs;
    this.#confirming = null;
    if (!this.#stopped) this.#confirmSoon();
  }

  /**
   * Whether a worker with a heartbeat in the last 10 minutes (`unknownTypeMs`) has a handler for the type, even if it has
   * stopped since. Not `isLive`: during a deployment the old workers stop before the new ones start, and jobs must not be
   * dead-lettered in between.
   */
  async hasRecentHandler(type: string): Promise<boolean> {
    const now = this.#engine.clock.monotonic();
    if (this.#recentTypes === null || now - this.#recentTypes.at > WORKERS_CACHE_MS) {
      this.#recentTypes = { at: now, types: this.#readRecentTypes() };
    }
    // If the store cannot be read, assume that a handler exists.
    return (await this.#recentTypes.types)?.has(type) ?? true;
  }

  async #readRecentTypes(): Promise<Set<string> | null> {
    try {
      const since = this.#engine.clock.now() - DEFAULTS.unknownTypeMs;
      const workers = await this.#engine.store.workers();
      return new Set(workers.filter((worker) => worker.seenAt >= since).flatMap((worker) => worker.types));
    } catch (error) {
      this.#emitOutage("workers", error);
      return null;
    }
  }

  /** Makes the deadline timer fire no later than this run needs it. */
  watch(run: Run): void {
    if (run.nextDeadline >= this.#deadlineAt) return;
    this.#deadlineAt = run.nextDeadline;
    this.#deadlineTimer?.cancel();
    const ms = this.#deadlineAt - this.#engine.clock.monotonic();
    this.#deadlineTimer = this.#engine.clock.after(ms, () => this.#enforceDeadlines(), { background: true });
  }

  #enforceDeadlines(): void {
    this.#deadlineTimer = null;
    this.#deadlineAt = Number.POSITIVE_INFINITY;
    const now = this.#engine.clock.monotonic();
    for (const run of this.#callbacks.runs()) {
      if (run.nextDeadline <= now) {
        if (run.reason !== null) this.#callbacks.abandon(run);
        else if (run.lease.deadline <= now) this.#callbacks.lost(run);
        else this.#callbacks.timedOut(run);
      }
      if (!run.hasEnded) this.watch(run);
    }
  }

  /** A call that hangs must not queue up others behind it. */
  #extendAndHeartbeat(): void {
    this.#extending ??= Promise.all([this.#extend(), this.#writeHeartbeat()]).then(() => {
      this.#extending = null;
    });
  }

  #heartbeatPeriodically(): void {
    const onTimer = (): void => {
      this.#heartbeatPeriodically();
      this.#heartbeat ??= this.#writeHeartbeat().then(() => {
        this.#heartbeat = null;
      });
    };
    this.#heartbeatTimer = this.#engine.clock.after(DEFAULTS.silentWorkerMs / 3, onTimer, { background: true });
  }

  /** Without this, other processes would report a new schedule as no longer defined until the next heartbeat. */
  readonly #publishSchedules = (): void => {
    this.#schedulesTimer ??= this.#engine.clock.after(
      SCHEDULES_DELAY_MS,
      () => {
        this.#schedulesTimer = null;
        void this.#writeHeartbeat();
      },
      { background: true },
    );
  };

  async #writeHeartbeat(): Promise<void> {
    const { concurrency, queues, types } = this.#settings;
    const { definedSchedules } = this.#engine;
    const runs = this.#callbacks.runs();
    const record: WorkerRecord = {
      id: this.#callbacks.id,
      queues,
      // Only types with a handler here. If a worker listed a type without a handler, jobs of that type would be deferred forever.
      types: [...this.#engine.types.keys()].filter((type) => types === null || types.includes(type)),
      schedules: definedSchedules.size > LIMITS.definedSchedules ? null : [...definedSchedules],
      concurrency,
      running: runs.size,
      host: hostname(),
      pid: process.pid,
      startedAt: this.#startedAt,
      version: this.#version,
      jobs: [...runs].slice(0, this.#maxListedJobs).map(({ lease: { job } }) => ({ id: job.id, type: job.type })),
    };
    try {
      this.#isRegistered = true;
      const { draining } = await this.#engine.store.heartbeat(record);
      if (!this.#stopped) this.#callbacks.setDraining(draining);
    } catch (error) {
      this.#emitOutage("heartbeat", error);
    }
  }

  /** The leases held here that match, those of running jobs first. */
  #held(matches: (lease: HeldLease) => boolean): { running: readonly Run[]; leases: readonly HeldLease[] } {
    const running = [...this.#callbacks.runs()].filter(
      ({ reason, lease }) => reason?.code !== "LEASE_LOST" && matches(lease),
    );
    return { running, leases: [...running.map((run) => run.lease), ...this.#callbacks.ready().filter(matches)] };
  }

  /** Extends the leases that match. Returns whether any of their jobs is to be cancelled. */
  async #extend(matches: (lease: HeldLease) => boolean = () => true): Promise<boolean> {
    const { clock, store, events } = this.#engine;
    const { running, leases } = this.#held(matches);
    let anyBusy = false;
    let anyCancelled = false;
    for (let from = 0; from < leases.length; from += LIMITS.batchJobs) {
      const chunk = leases.slice(from, from + LIMITS.batchJobs);
      const sentAt = clock.monotonic();
      try {
        const refs = chunk.map(({ job }) => ({ id: job.id, fence: job.fence }));
        const results = await store.extend(refs, this.#settings.leaseMs);
        for (const [index, lease] of chunk.entries()) {
          const result = results[index];
          if (result === "busy") anyBusy = true;
          else if (result !== "lost") lease.deadline = sentAt + this.#settings.leaseMs;
          if (result === "cancel") {
            anyCancelled = true;
            this.#callbacks.cancel(lease.job.id);
          }
          if (result !== "lost") continue;
          const run = running[from + index];
          // A job that ended during the call is settled, not lost.
          if (run !== undefined && !run.hasEnded) this.#callbacks.lost(run);
          if (run === undefined && this.#callbacks.ready().includes(lease)) {
            this.#callbacks.dropReady(lease);
            events.emit("lost", leaseEvent(lease));
          }
        }
      } catch (error) {
        // Deadlines still apply: the deadline timer aborts a run whose lease was not extended in time.
        this.#emitOutage("extend", error);
      }
    }
    if (anyBusy) this.#extendAgainSoon();
    return anyCancelled;
  }

  /** Another transaction has locked some rows. Their leases were not extended, so this tries again well before they expire. */
  #extendAgainSoon(): void {
    const ms = Math.min(BUSY.extendRetryMs, this.#settings.leaseMs / 10);
    this.#busyTimer ??= this.#engine.clock.after(
      ms,
      () => {
        this.#busyTimer = null;
        this.#extendAndHeartbeat();
      },
      { background: true },
    );
  }

  #emitOutage(doing: string, error: unknown): void {
    this.#engine.events.emit("outage", { doing, error });
  }
}
