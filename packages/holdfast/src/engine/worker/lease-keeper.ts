import { hostname } from "node:os";
import type { Timer } from "../../clock.js";
import { DEFAULTS, LIMITS } from "../../defaults.js";
import type { WorkerRecord } from "../../store.js";
import { leaseEvent, type EngineContext, type HeldLease } from "../context.js";
import type { Run } from "./run.js";

interface KeeperSettings {
  concurrency: number;
  queues: readonly string[] | null;
  types: readonly string[] | null;
  leaseMs: number;
}

interface Holder {
  id: string;
  runs(): ReadonlySet<Run>;
  ready(): readonly HeldLease[];
  dropReady(lease: HeldLease): void;
  lost(run: Run): void;
  cancel(id: string): void;
  timedOut(run: Run): void;
  writeOff(run: Run): void;
}

// Asking for the list of workers at every job of an unknown type would cost more than the jobs.
const WORKERS_FRESH_MS = 5_000;
const BUSY_MS = 1_000;
const TELL_MS = 50;
// Between two looks at jobs that somebody says are asked to stop, from the first that was not true on.
const CONFIRM_MS = { least: 50, most: 5_000 };

/**
 * Keeps a worker's leases alive and its deadlines honest: one timer extends all leases in one call at a third of the
 * lease and tells the store that the worker lives; another strikes at the nearest timeout or lost lease.
 */
export class LeaseKeeper {
  readonly #engine: EngineContext;
  readonly #settings: KeeperSettings;
  readonly #holder: Holder;
  readonly #startedAt: number;
  #beatTimer: Timer | null = null;
  #attentionTimer: Timer | null = null;
  #attentionAt = Number.POSITIVE_INFINITY;
  #beating: Promise<void> | null = null;
  #stopped = false;
  #listedHere = false;
  #listed: { at: number; types: Promise<Set<string> | null> } | null = null;

  constructor(engine: EngineContext, settings: KeeperSettings, holder: Holder) {
    this.#engine = engine;
    this.#settings = settings;
    this.#holder = holder;
    this.#startedAt = engine.clock.now();
  }

  /** Keeps leases and lists the worker in the store, so that others know what it can run. */
  start(): void {
    this.#engine.defining.add(this.#tellDefined);
    this.#heartbeat();
    this.watchLeases();
    if (this.#settings.leaseMs > DEFAULTS.silentWorkerMs) this.#scheduleWord();
  }

  /** Others must not take a schedule for left behind until the next heartbeat; several defined in a row are told at once. */
  readonly #tellDefined = (): void => {
    this.#tellTimer ??= this.#engine.clock.after(
      TELL_MS,
      () => {
        this.#tellTimer = null;
        void this.#sayAlive();
      },
      { background: true },
    );
  };
  #tellTimer: Timer | null = null;

  /** Keeps leases; the worker is listed only if it lasts that long. */
  watchLeases(): void {
    this.#schedule();
  }

  /** Extends every lease at once rather than at the next turn. */
  extendNow(): Promise<void> {
    this.#heartbeat();
    return this.#beating ?? Promise.resolve();
  }

  /**
   * Somebody says that these jobs are asked to stop: whether it is so, the store knows. It is asked once for all that are
   * named meanwhile, of jobs that are held here; and less and less often as long as none of it turns out to be true.
   */
  confirm(ids: readonly string[]): void {
    const named = new Set(ids);
    for (const { job } of this.#held(({ job }) => named.has(job.id)).leases) this.#named.add(job.id);
    this.#confirmSoon();
  }
  #named = new Set<string>();
  #confirming: Promise<void> | null = null;
  #confirmTimer: Timer | null = null;
  #confirmPauseMs = 0;
  #confirmFrom = Number.NEGATIVE_INFINITY;

  #confirmSoon(): void {
    if (this.#named.size === 0 || this.#confirming !== null || this.#confirmTimer !== null) return;
    const ms = this.#confirmFrom - this.#engine.clock.monotonic();
    if (ms <= 0) {
      this.#confirming = this.#confirmNamed();
      return;
    }
    const due = (): void => {
      this.#confirmTimer = null;
      this.#confirmSoon();
    };
    this.#confirmTimer = this.#engine.clock.after(ms, due, { background: true });
  }

  async #confirmNamed(): Promise<void> {
    const named = this.#named;
    this.#named = new Set();
    const isTrue = await this.#extend(({ job }) => named.has(job.id));
    const longer = Math.min(CONFIRM_MS.most, Math.max(CONFIRM_MS.least, 2 * this.#confirmPauseMs));
    this.#confirmPauseMs = isTrue ? 0 : longer;
    this.#confirmFrom = this.#engine.clock.monotonic() + this.#confirmPauseMs;
    this.#confirming = null;
    if (!this.#stopped) this.#confirmSoon();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#engine.defining.delete(this.#tellDefined);
    this.#tellTimer?.cancel();
    this.#beatTimer?.cancel();
    this.#busyTimer?.cancel();
    this.#attentionTimer?.cancel();
    this.#wordTimer?.cancel();
    this.#confirmTimer?.cancel();
    await Promise.all([this.#beating, this.#saying, this.#confirming]);
    if (!this.#listedHere) return;
    await this.#engine.store.deregister(this.#holder.id).catch((error: unknown) => this.#report("deregister", error));
  }

  /** Whether some worker that lives, or lived a moment ago, lists the type. */
  async isListed(type: string): Promise<boolean> {
    const now = this.#engine.clock.monotonic();
    if (this.#listed === null || now - this.#listed.at > WORKERS_FRESH_MS) {
      this.#listed = { at: now, types: this.#listedTypes() };
    }
    // If nobody could be asked, nobody can be said to be missing.
    return (await this.#listed.types)?.has(type) ?? true;
  }

  async #listedTypes(): Promise<Set<string> | null> {
    try {
      const since = this.#engine.clock.now() - DEFAULTS.unknownTypeMs;
      const workers = await this.#engine.store.workers();
      return new Set(workers.filter((worker) => worker.seenAt >= since).flatMap((worker) => worker.types));
    } catch (error) {
      this.#report("workers", error);
      return null;
    }
  }

  /** A handler has begun: strike no later than its timeout. */
  watch(run: Run): void {
    if (run.attentionAt >= this.#attentionAt) return;
    this.#attentionAt = run.attentionAt;
    this.#attentionTimer?.cancel();
    const ms = this.#attentionAt - this.#engine.clock.monotonic();
    this.#attentionTimer = this.#engine.clock.after(ms, () => this.#attend(), { background: true });
  }

  #attend(): void {
    this.#attentionTimer = null;
    this.#attentionAt = Number.POSITIVE_INFINITY;
    const now = this.#engine.clock.monotonic();
    for (const run of this.#holder.runs()) {
      if (run.attentionAt <= now) {
        if (run.reason !== null) this.#holder.writeOff(run);
        else if (run.lease.deadline <= now) this.#holder.lost(run);
        else this.#holder.timedOut(run);
      }
      if (!run.over) this.watch(run);
    }
  }

  #schedule(): void {
    const due = (): void => {
      this.#schedule();
      this.#heartbeat();
    };
    this.#beatTimer = this.#engine.clock.after(this.#settings.leaseMs / 3, due, { background: true });
  }

  /** Between the beats of a long lease it would be taken for gone. */
  #scheduleWord(): void {
    const due = (): void => {
      this.#scheduleWord();
      this.#saying ??= this.#sayAlive().then(() => {
        this.#saying = null;
      });
    };
    this.#wordTimer = this.#engine.clock.after(DEFAULTS.silentWorkerMs / 3, due, { background: true });
  }
  #wordTimer: Timer | null = null;
  #saying: Promise<void> | null = null;

  /** A call that hangs must not gather others behind it. */
  #heartbeat(): void {
    this.#beating ??= Promise.all([this.#extend(), this.#sayAlive()]).then(() => {
      this.#beating = null;
    });
  }

  async #sayAlive(): Promise<void> {
    const { concurrency, queues, types } = this.#settings;
    const record: WorkerRecord = {
      id: this.#holder.id,
      queues,
      // Only what has a handler here: a type that is merely asked for would keep its jobs waiting for ever.
      types: [...this.#engine.types.keys()].filter((type) => types === null || types.includes(type)),
      schedules: this.#engine.defined.size > LIMITS.definedSchedules ? null : [...this.#engine.defined],
      concurrency,
      running: this.#holder.runs().size,
      host: hostname(),
      pid: process.pid,
      startedAt: this.#startedAt,
    };
    try {
      this.#listedHere = true;
      await this.#engine.store.heartbeat(record);
    } catch (error) {
      this.#report("heartbeat", error);
    }
  }

  /** The leases that are held here, those of running jobs first. */
  #held(concerns: (lease: HeldLease) => boolean): { running: readonly Run[]; leases: readonly HeldLease[] } {
    const running = [...this.#holder.runs()].filter(
      ({ reason, lease }) => reason?.code !== "LEASE_LOST" && concerns(lease),
    );
    return { running, leases: [...running.map((run) => run.lease), ...this.#holder.ready().filter(concerns)] };
  }

  /** Answers whether any of the jobs is asked to stop. */
  async #extend(concerns: (lease: HeldLease) => boolean = () => true): Promise<boolean> {
    const { clock, store, events } = this.#engine;
    const { running, leases } = this.#held(concerns);
    let isBusy = false;
    let isCancelled = false;
    for (let from = 0; from < leases.length; from += LIMITS.batchJobs) {
      const chunk = leases.slice(from, from + LIMITS.batchJobs);
      const sentAt = clock.monotonic();
      try {
        const refs = chunk.map(({ job }) => ({ id: job.id, fence: job.fence }));
        const answers = await store.extend(refs, this.#settings.leaseMs);
        for (const [index, lease] of chunk.entries()) {
          const answer = answers[index];
          if (answer === "busy") isBusy = true;
          else if (answer !== "lost") lease.deadline = sentAt + this.#settings.leaseMs;
          if (answer === "cancel") {
            isCancelled = true;
            this.#holder.cancel(lease.job.id);
          }
          if (answer !== "lost") continue;
          const run = running[from + index];
          // A job that ended while the call was under way is settled, not lost.
          if (run !== undefined && !run.over) this.#holder.lost(run);
          if (run === undefined && this.#holder.ready().includes(lease)) {
            this.#holder.dropReady(lease);
            events.emit("lost", leaseEvent(lease));
          }
        }
      } catch (error) {
        // The deadlines go on; what is not extended in time is taken for lost when they strike.
        this.#report("extend", error);
      }
    }
    if (isBusy) this.#beatAgain();
    return isCancelled;
  }

  /** Somebody has a row locked: its lease runs on, and is asked for again before it is over. */
  #beatAgain(): void {
    const ms = Math.min(BUSY_MS, this.#settings.leaseMs / 10);
    this.#busyTimer ??= this.#engine.clock.after(
      ms,
      () => {
        this.#busyTimer = null;
        this.#heartbeat();
      },
      { background: true },
    );
  }
  #busyTimer: Timer | null = null;

  #report(doing: string, error: unknown): void {
    this.#engine.events.emit("outage", { doing, error });
  }
}
