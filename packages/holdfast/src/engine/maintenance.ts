import type { Timer } from "../clock.js";
import { DEFAULTS } from "../defaults.js";
import { durationMs, type Duration } from "../duration.js";
import { InvalidOptionError } from "../errors.js";
import { optionKeys, readCount, refuseUnknown, refuseUnknownIn, show } from "../options.js";
import { EXPIRED_ERROR, isFinished, isState, STALE_ERROR, type FinishedState } from "../job/state.js";
import type { ReapedJob } from "../store.js";
import { publishReaped } from "./events/publish.js";
import type { BulkOptions } from "./client/changes.js";
import type { EngineContext } from "./context.js";
import type { ErrorEvent } from "./events/events.js";
import { NEVER_STOPPED, purgeMs, ROLL_UP_MS, RollUp, sampleMs, type IsStopped } from "./history/roll-up.js";

/** How long finished jobs are stored: an age, a number of jobs, both, or `false` for forever. */
export type Retention = Duration | { age?: Duration; count?: number } | false;
export interface RetentionOptions extends Partial<Record<FinishedState, Retention>> {
  /** How long audit entries are stored: an age, or `false` for forever. */
  audit?: Duration | { age: Duration } | false;
}

/** What `hf.purge` takes. */
export interface PurgeOptions {
  state: FinishedState;
  /** Delete jobs that finished longer ago than this. */
  olderThan: Duration;
}

const PURGE_KEYS: ReadonlySet<string> = optionKeys<PurgeOptions>({ state: true, olderThan: true });

export interface RetentionRule {
  state: FinishedState;
  ageMs: number | null;
  count: number | null;
}

const RETENTION_KEYS: ReadonlySet<string> = optionKeys<RetentionOptions>({
  completed: true,
  dead: true,
  cancelled: true,
  audit: true,
});
const RULE_KEYS: ReadonlySet<string> = optionKeys<Extract<Retention, { count?: number }>>({ age: true, count: true });
const AUDIT_KEYS: ReadonlySet<string> = optionKeys<{ age: Duration }>({ age: true });
const FINISHED: readonly FinishedState[] = ["completed", "dead", "cancelled"];

export function readRetention(options: RetentionOptions): RetentionRule[] {
  refuseUnknownIn(options, RETENTION_KEYS, "retention");
  return FINISHED.map((state): RetentionRule => {
    const value = options[state] ?? DEFAULTS.retention[state];
    const field = `retention.${state}`;
    if (value === false) return { state, ageMs: null, count: null };
    if (typeof value !== "object") return { state, ageMs: durationMs(value, field), count: null };
    refuseUnknownIn(value, RULE_KEYS, field);
    const { age, count } = value as { age?: Duration; count?: number };
    if (age === undefined && count === undefined)
      throw new InvalidOptionError(field, "must have an age, a count or both");
    return {
      state,
      ageMs: age === undefined ? null : durationMs(age, `${field}.age`),
      count: count === undefined ? null : readCount(count, `${field}.count`, 0, Number.MAX_SAFE_INTEGER),
    };
  });
}

/** How long audit entries are stored; null: forever. */
export function readAuditRetention({ audit = DEFAULTS.retention.audit }: RetentionOptions): number | null {
  if (audit === false) return null;
  if (typeof audit !== "object") return durationMs(audit, "retention.audit");
  refuseUnknownIn(audit, AUDIT_KEYS, "retention.audit");
  return durationMs(audit.age, "retention.audit.age");
}

/**
 * How long finished jobs are stored, by state. 0: deleted when they finish; null: until a purge, because a limit by count is
 * applied only there.
 */
export function retentionByState(rules: readonly RetentionRule[]): ReadonlyMap<FinishedState, number | null> {
  return new Map(
    rules.map(({ state, ageMs, count }) => [state, ageMs === 0 || count === 0 ? 0 : count === null ? ageMs : null]),
  );
}

/** How many jobs each part of maintenance changed. */
export interface MaintenanceResult {
  /** Jobs whose leases had expired. */
  stale: number;
  /** Waiting jobs past their expiry. */
  expired: number;
  /** Finished jobs deleted by retention. */
  purged: number;
}

interface Duty {
  name: string;
  everyMs: number;
  run(): Promise<void>;
}

/**
 * Reaps expired leases, expires overdue jobs and purges finished ones. It works in small chunks, so that claims are not blocked
 * for long. Any number of processes may run it: the store grants each duty to one of them at a time.
 */
export class Maintenance {
  readonly #engine: EngineContext;
  readonly #rules: RetentionRule[];
  readonly #duties: Duty[];
  readonly #rollUp: RollUp;
  /** For duties, which end after their current chunk: there may be millions of jobs to purge when the client closes. */
  readonly #isStopped: IsStopped = () => !this.#active;
  #timers: Timer[] = [];
  #active = false;
  #running: Set<Promise<void>> = new Set();

  constructor(engine: EngineContext, rules: RetentionRule[]) {
    this.#engine = engine;
    this.#rules = rules;
    this.#rollUp = new RollUp(engine);
    const { expireMs, reapMs, repairMs, retentionMs } = DEFAULTS.maintenance;
    this.#duties = [
      { name: "expire", everyMs: expireMs, run: async () => void (await this.#expireOverdue(this.#isStopped)) },
      { name: "stale", everyMs: reapMs, run: async () => void (await this.#reapExpiredLeases(this.#isStopped)) },
      { name: "retention", everyMs: retentionMs, run: () => this.#applyRetention() },
      { name: "maintain", everyMs: retentionMs, run: () => engine.store.maintain() },
      {
        name: "waits",
        everyMs: repairMs,
        run: async () => void (await engine.store.repairWaits(DEFAULTS.maintenance.chunk)),
      },
      { name: "depths", everyMs: sampleMs(engine.store), run: () => this.#rollUp.sample() },
      {
        name: "transitions",
        everyMs: purgeMs(engine.store),
        run: () => this.#rollUp.purgeTransitions(this.#isStopped),
      },
      { name: "history", everyMs: ROLL_UP_MS, run: () => this.#rollUp.run(this.#isStopped) },
    ];
  }

  start(): void {
    if (this.#active) return;
    this.#active = true;
    for (const duty of this.#duties) this.#schedule(duty);
  }

  async stop(): Promise<void> {
    this.#active = false;
    for (const timer of this.#timers) timer.cancel();
    this.#timers = [];
    await Promise.all(this.#running);
  }

  /** Returns how many. */
  async reapExpiredLeases(): Promise<number> {
    return this.#reapExpiredLeases(NEVER_STOPPED);
  }

  #reapExpiredLeases(isStopped: IsStopped): Promise<number> {
    return this.#reapInChunks((limit) => this.#engine.store.reapExpiredLeases(limit), STALE_ERROR, isStopped);
  }

  /** Returns how many. */
  async expireOverdue(): Promise<number> {
    return this.#expireOverdue(NEVER_STOPPED);
  }

  #expireOverdue(isStopped: IsStopped): Promise<number> {
    return this.#reapInChunks((limit) => this.#engine.store.expireOverdue(limit), EXPIRED_ERROR, isStopped);
  }

  async #reapInChunks(
    step: (limit: number) => Promise<ReapedJob[]>,
    error: ErrorEvent,
    isStopped: IsStopped,
  ): Promise<number> {
    const { chunk } = DEFAULTS.maintenance;
    let total = 0;
    for (;;) {
      const reaped = await step(chunk);
      for (const job of reaped) publishReaped(this.#engine, job, error);
      total += reaped.length;
      if (reaped.length < chunk || isStopped()) return total;
    }
  }

  /** Runs every duty now, without asking the store whether another process has it. For programs without a worker. */
  async runAll(): Promise<MaintenanceResult> {
    const stale = await this.reapExpiredLeases();
    const expired = await this.expireOverdue();
    const purged = await this.purge();
    await this.#purgeAudit(NEVER_STOPPED);
    await this.#purgeEvents(NEVER_STOPPED);
    await this.#engine.store.maintain();
    await this.#engine.store.repairWaits(DEFAULTS.maintenance.chunk);
    await this.#rollUp.sample();
    await this.#rollUp.run();
    await this.#rollUp.purgeTransitions();
    return { stale, expired, purged };
  }

  /** Deletes finished jobs past their retention. Returns how many. */
  async purge(): Promise<number> {
    return this.#purge(NEVER_STOPPED);
  }

  async #purge(isStopped: IsStopped): Promise<number> {
    let total = 0;
    for (const { state, ageMs, count } of this.#rules) {
      const before = ageMs === null ? null : this.#engine.clock.now() - ageMs;
      if (before !== null && !isStopped())
        total += await this.#purgeState(state, { before, keep: null }, {}, isStopped);
      if (count !== null && !isStopped())
        total += await this.#purgeState(state, { before: null, keep: count }, {}, isStopped);
    }
    return isStopped() ? total : total + (await this.#purgeDue(isStopped));
  }

  /** Deletes finished jobs of types with their own retention. */
  async #purgeDue(isStopped: IsStopped): Promise<number> {
    const { chunk } = DEFAULTS.maintenance;
    let total = 0;
    for (;;) {
      const deleted = await this.#engine.store.purgeDue(chunk);
      total += deleted;
      if (deleted < chunk || isStopped()) break;
    }
    if (total > 0) this.#engine.events.emit("purged", { state: null, count: total });
    return total;
  }

  /** Deletes jobs of one finished state that finished longer ago than `olderThan`. Returns how many. */
  async purgeOlder(options: PurgeOptions, bulk?: BulkOptions): Promise<number> {
    refuseUnknown(options, PURGE_KEYS, "purge");
    if (!isState(options.state) || !isFinished(options.state)) {
      throw new InvalidOptionError("state", `${show(options.state)} is none of completed, dead, cancelled`);
    }
    const before = this.#engine.clock.now() - durationMs(options.olderThan, "olderThan");
    return this.#purgeState(options.state, { before, keep: null }, bulk);
  }

  async #applyRetention(): Promise<void> {
    await this.#purge(this.#isStopped);
    if (!this.#isStopped()) await this.#purgeAudit(this.#isStopped);
    if (!this.#isStopped()) await this.#purgeEvents(this.#isStopped);
  }

  async #purgeEvents(isStopped: IsStopped): Promise<void> {
    const { chunk } = DEFAULTS.maintenance;
    while ((await this.#engine.store.purgeEvents(chunk)) >= chunk) if (isStopped()) return;
  }

  async #purgeAudit(isStopped: IsStopped): Promise<void> {
    const { store, clock, auditRetentionMs } = this.#engine;
    if (auditRetentionMs === null) return;
    const { chunk: limit } = DEFAULTS.maintenance;
    const before = clock.now() - auditRetentionMs;
    while ((await store.purgeAudit({ before, limit })) >= limit && !isStopped());
  }

  async #purgeState(
    state: FinishedState,
    bound: { before: number | null; keep: number | null },
    { signal, onProgress }: BulkOptions = {},
    isStopped: IsStopped = NEVER_STOPPED,
  ): Promise<number> {
    const { chunk } = DEFAULTS.maintenance;
    let total = 0;
    for (;;) {
      signal?.throwIfAborted();
      const deleted = await this.#engine.store.purge({ state, ...bound, limit: chunk });
      total += deleted;
      await onProgress?.({ examined: total, changed: total });
      if (deleted < chunk || isStopped()) break;
    }
    if (total > 0) this.#engine.events.emit("purged", { state, count: total });
    return total;
  }

  #schedule(duty: Duty): void {
    const onTimer = (): void => {
      this.#timers = this.#timers.filter((known) => known !== timer);
      const running = this.#runIfAcquired(duty).finally(() => {
        this.#running.delete(running);
        if (this.#active) this.#schedule(duty);
      });
      this.#running.add(running);
    };
    // With jitter: otherwise processes that started together would ask the store at the same moment forever.
    const delayMs = duty.everyMs * (0.9 + 0.2 * this.#engine.random());
    const timer = this.#engine.clock.after(delayMs, onTimer, { background: true });
    this.#timers.push(timer);
  }

  async #runIfAcquired(duty: Duty): Promise<void> {
    try {
      if (await this.#engine.store.tryAcquireDuty(duty.name, duty.everyMs * 0.8)) await duty.run();
    } catch (error) {
      this.#engine.events.emit("outage", { doing: duty.name, error });
    }
  }
}
