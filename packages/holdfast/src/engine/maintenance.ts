import type { Timer } from "../clock.js";
import { DEFAULTS } from "../defaults.js";
import { durationMs, type Duration } from "../duration.js";
import { InvalidOptionError } from "../errors.js";
import { readCount, refuseUnknownIn } from "../options.js";
import type { FinishedState } from "../job/state.js";
import { EXPIRED_ERROR, STALE_ERROR } from "../job/state.js";
import type { ReapedJob } from "../store.js";
import { announceLaidDown } from "./events/publish.js";
import type { BulkOptions } from "./client/changes.js";
import type { EngineContext } from "./context.js";
import type { ErrorEvent } from "./events/events.js";

/** How long finished jobs are kept: an age, a number of jobs, both, or `false` for ever. */
export type Retention = Duration | { age?: Duration; count?: number } | false;
export interface RetentionOptions extends Partial<Record<FinishedState, Retention>> {
  /** How long entries of the audit log are kept: an age, or `false` for ever. */
  audit?: Duration | { age: Duration } | false;
}

export interface Rule {
  state: FinishedState;
  ageMs: number | null;
  count: number | null;
}

const FINISHED: readonly FinishedState[] = ["completed", "dead", "cancelled"];

export function readRetention(options: RetentionOptions): Rule[] {
  refuseUnknownIn(options, new Set([...FINISHED, "audit"]), "retention");
  return FINISHED.map((state): Rule => {
    const value = options[state] ?? DEFAULTS.retention[state];
    const field = `retention.${state}`;
    if (value === false) return { state, ageMs: null, count: null };
    if (typeof value !== "object") return { state, ageMs: durationMs(value, field), count: null };
    refuseUnknownIn(value, new Set(["age", "count"]), field);
    const { age, count } = value as { age?: Duration; count?: number };
    if (age === undefined && count === undefined) throw new InvalidOptionError(field, "give an age, a count or both");
    return {
      state,
      ageMs: age === undefined ? null : durationMs(age, `${field}.age`),
      count: count === undefined ? null : readCount(count, `${field}.count`, 0, Number.MAX_SAFE_INTEGER),
    };
  });
}

/** How long entries of the audit log are kept; null, for ever. */
export function readAuditRetention({ audit = DEFAULTS.retention.audit }: RetentionOptions): number | null {
  if (audit === false) return null;
  if (typeof audit !== "object") return durationMs(audit, "retention.audit");
  refuseUnknownIn(audit, new Set(["age"]), "retention.audit");
  return durationMs(audit.age, "retention.audit.age");
}

/** How long jobs of each state are kept: 0, not at all; null, as long as a purge says, which alone can count them. */
export function keptMs(rules: readonly Rule[]): ReadonlyMap<FinishedState, number | null> {
  return new Map(
    rules.map(({ state, ageMs, count }) => [state, ageMs === 0 || count === 0 ? 0 : count === null ? ageMs : null]),
  );
}

/** How many jobs each duty of maintenance concerned. */
export interface MaintenanceResult {
  stale: number;
  expired: number;
  purged: number;
}

interface Duty {
  name: string;
  everyMs: number;
  run(): Promise<void>;
}

/**
 * Stale leases, expiry and retention, in small chunks, so that claims always get in between. Any number of processes
 * may run it: the store gives each duty's turn to one of them.
 */
export class Maintenance {
  readonly #engine: EngineContext;
  readonly #rules: Rule[];
  readonly #auditMs: number | null;
  readonly #duties: Duty[];
  #timers: Timer[] = [];
  #active = false;
  #running: Set<Promise<void>> = new Set();

  constructor(engine: EngineContext, rules: Rule[], auditMs: number | null) {
    this.#engine = engine;
    this.#rules = rules;
    this.#auditMs = auditMs;
    const { expireMs, staleMs, retentionMs } = DEFAULTS.maintenance;
    this.#duties = [
      { name: "expire", everyMs: expireMs, run: async () => void (await this.expireOverdue()) },
      { name: "stale", everyMs: staleMs, run: async () => void (await this.reapExpiredLeases()) },
      { name: "retention", everyMs: retentionMs, run: () => this.#retain() },
      { name: "maintain", everyMs: retentionMs, run: () => engine.store.maintain() },
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

  /** Lays down leases that ran out. Answers how many. */
  async reapExpiredLeases(): Promise<number> {
    return this.#layDown((limit) => this.#engine.store.reapExpiredLeases(limit), STALE_ERROR);
  }

  /** Lays down waiting jobs past their expiry. Answers how many. */
  async expireOverdue(): Promise<number> {
    return this.#layDown((limit) => this.#engine.store.expireOverdue(limit), EXPIRED_ERROR);
  }

  async #layDown(step: (limit: number) => Promise<ReapedJob[]>, error: ErrorEvent): Promise<number> {
    const { chunk } = DEFAULTS.maintenance;
    let total = 0;
    for (;;) {
      const laidDown = await step(chunk);
      for (const job of laidDown) announceLaidDown(this.#engine, job, error);
      total += laidDown.length;
      if (laidDown.length < chunk) return total;
    }
  }

  /** Every duty at once, whoever's turn it is: for those who run no worker. */
  async all(): Promise<MaintenanceResult> {
    const stale = await this.reapExpiredLeases();
    const expired = await this.expireOverdue();
    const purged = await this.purge();
    await this.#purgeAudit();
    await this.#engine.store.maintain();
    return { stale, expired, purged };
  }

  /** Deletes what retention no longer keeps. Answers how many. */
  async purge(): Promise<number> {
    let total = 0;
    for (const { state, ageMs, count } of this.#rules) {
      const before = ageMs === null ? null : this.#engine.clock.now() - ageMs;
      const byAge = before === null ? 0 : await this.purgeState(state, { before, keep: null });
      const byCount = count === null ? 0 : await this.purgeState(state, { before: null, keep: count });
      total += byAge + byCount;
    }
    return total;
  }

  async #retain(): Promise<void> {
    await this.purge();
    await this.#purgeAudit();
  }

  async #purgeAudit(): Promise<void> {
    if (this.#auditMs === null) return;
    const { store, clock } = this.#engine;
    const { chunk: limit } = DEFAULTS.maintenance;
    const before = clock.now() - this.#auditMs;
    while ((await store.purgeAudit({ before, limit })) >= limit);
  }

  async purgeState(
    state: FinishedState,
    bound: { before: number | null; keep: number | null },
    { signal, onProgress }: BulkOptions = {},
  ): Promise<number> {
    const { chunk } = DEFAULTS.maintenance;
    let total = 0;
    for (;;) {
      signal?.throwIfAborted();
      const deleted = await this.#engine.store.purge({ state, ...bound, limit: chunk });
      total += deleted;
      await onProgress?.({ looked: total, changed: total });
      if (deleted < chunk) break;
    }
    if (total > 0) this.#engine.events.emit("purged", { state, count: total });
    return total;
  }

  #schedule(duty: Duty): void {
    const due = (): void => {
      this.#timers = this.#timers.filter((known) => known !== timer);
      const turn = this.#takeTurn(duty).finally(() => {
        this.#running.delete(turn);
        if (this.#active) this.#schedule(duty);
      });
      this.#running.add(turn);
    };
    // Spread over the interval, or all processes that started together would ask together for ever.
    const spread = duty.everyMs * (0.9 + 0.2 * this.#engine.random());
    const timer = this.#engine.clock.after(spread, due, { background: true });
    this.#timers.push(timer);
  }

  async #takeTurn(duty: Duty): Promise<void> {
    try {
      if (await this.#engine.store.tryAcquireDuty(duty.name, duty.everyMs * 0.8)) await duty.run();
    } catch (error) {
      this.#engine.events.emit("outage", { doing: duty.name, error });
    }
  }
}
