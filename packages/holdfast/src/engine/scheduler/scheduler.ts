import type { Timer } from "../../clock.js";
import { DEFAULTS } from "../../defaults.js";
import { isOutage, StoreUnavailableError } from "../../errors.js";
import { OVERLAP } from "../../schedule/slots.js";
import { messageOf } from "../../job/thrown.js";
import type { FireResult, Firing, SlotReason, StoredSchedule } from "../../store.js";
import { batchesOf } from "../batch.js";
import type { EngineContext } from "../context.js";
import { BUSY, retryWhileBusy } from "../retry-busy.js";
import { planFiring } from "./plan-firing.js";
import { SkippedVersions } from "./skipped-versions.js";

// Schedules read in one call, and how long they are planned before the event loop runs other work.
const BATCH = 100;
const MAX_PLAN_MS = 5;
// Several processes try to fire the same slot. Those that lose wait about this long before they poll again.
const CONTENTION_PAUSE_MS = 100;
const MAX_FIRE_ATTEMPTS = 5;
// Retries after an outage, or while another transaction holds a schedule. The delay doubles up to the maximum.
const RETRY_MS = 100;
const MAX_RETRY_MS = 5_000;
// Schedules that code no longer defines are reported only after starting processes have had time to define theirs.
const FIRST_REPORT_MS = 60_000;
const REPORT_MS = 300_000;
const REPORT_PAGE = 100;
// A schedule that this process cannot read is left to other processes, and tried again after this long.
const UNREADABLE_MS = 3_600_000;
// Names in one log line.
const MAX_NAMES = 5;

interface PollResult {
  /** Jobs enqueued. */
  enqueued: number;
  /** When to poll again. */
  nextInMs: number;
  /** Another process fired the slots first. */
  contended: boolean;
  /** Other transactions hold some of the schedules. */
  busy: boolean;
}

/**
 * Turns due slots into jobs. Every process may run a scheduler: the store turns each slot into a job once, whichever process asks,
 * so no leader is needed.
 */
export class Scheduler {
  readonly #engine: EngineContext;
  readonly #tickMs: number;
  #active = false;
  #timer: Timer | null = null;
  #timerAt = 0;
  #polling: Promise<void> | null = null;
  #pollAgain = false;
  #failures = 0;
  #unsubscribe: (() => void) | null = null;
  #reportAt = 0;
  readonly #reported = new Set<string>();
  /** Schedules that this process cannot read. */
  readonly #unreadable: SkippedVersions;
  /** Schedules whose row another transaction had locked when they were tried. */
  readonly #locked: SkippedVersions;

  constructor(engine: EngineContext, tickMs: number) {
    this.#engine = engine;
    this.#tickMs = tickMs;
    this.#unreadable = new SkippedVersions(engine.clock);
    this.#locked = new SkippedVersions(engine.clock);
  }

  start(): void {
    if (this.#active) return;
    this.#active = true;
    this.#reportAt = this.#engine.clock.monotonic() + FIRST_REPORT_MS;
    this.#unsubscribe = this.#engine.store.listen((hint) => {
      if (hint.kind === "schedules") this.#pollIn(0);
    });
    this.#pollIn(0);
  }

  /** Waits for the poll in progress. No slot fires after that. */
  async stop(): Promise<void> {
    this.#active = false;
    this.#timer?.cancel();
    this.#unsubscribe?.();
    await this.#polling;
  }

  /** A schedule that runs at this time was written. */
  wake(nextRunAt: number | null): void {
    if (this.#active) this.#pollIn((nextRunAt ?? 0) - this.#engine.clock.now());
  }

  /** Enqueues the jobs of all due slots. Returns how many. */
  async fireDue(): Promise<number> {
    let enqueued = 0;
    for (let attempt = 1; ; attempt++) {
      // An explicit call tries locked schedules again, without waiting for their backoff.
      this.#locked.clear();
      const poll = await this.#fireBatches(() => true);
      enqueued += poll.enqueued;
      if (!(poll.contended || poll.busy) || attempt === MAX_FIRE_ATTEMPTS) return enqueued;
      // The other process may stop before it is done, and the other transactions may have ended.
      await new Promise((resolve) => setTimeout(resolve, CONTENTION_PAUSE_MS));
    }
  }

  /** Fires the due slots of one schedule, unless another process is faster. */
  async fireSchedule(schedule: StoredSchedule, at: number): Promise<void> {
    await this.fireNow(schedule, planFiring(schedule, at));
  }

  /** Fires one schedule and publishes the result. Retries for a while if another transaction holds it. */
  async fireNow(schedule: StoredSchedule, firing: Firing): Promise<FireResult> {
    const { clock, store } = this.#engine;
    const limit = { deadline: clock.monotonic() + BUSY.scheduleWaitMs };
    const fired = await retryWhileBusy(clock, limit, async () => {
      const [result = { status: "changed" } as const] = await store.fire([firing]);
      return result.status === "busy" ? "busy" : result;
    });
    if (fired === "busy") {
      const what = `the schedule ${JSON.stringify(schedule.name)}, its user's row, its key or its queue`;
      throw new StoreUnavailableError(
        `timed out after ${BUSY.scheduleWaitMs / 1_000} s waiting for an open transaction that holds ${what}; retry`,
      );
    }
    this.publish(schedule, firing, fired);
    return fired;
  }

  /** Emits events for what the store has confirmed. Returns whether a slot was missed. */
  publish(schedule: StoredSchedule, firing: Firing, result: FireResult): boolean {
    if (result.status !== "fired") return false;
    const { events, history, logger } = this.#engine;
    const { name, type, queue } = schedule;
    let missed = false;
    for (const [index, { slot, through, reason }] of firing.slots.entries()) {
      const { job = null, heldBy = null } = result.slots[index] ?? {};
      const at = new Date(slot);
      if (job !== null) {
        history.enqueued({ queue, type });
        events.emit("enqueued", { id: job, type, queue, replaced: false });
        events.emit("fired", { schedule: name, slot: at, id: job, reason });
        continue;
      }
      const why: SlotReason = heldBy === null ? (reason ?? "refused: the store inserted no job") : OVERLAP;
      const skipped = { schedule: name, slot: at, through: through === null ? null : new Date(through), reason: why };
      events.emit("skipped", { ...skipped, heldBy });
      // A skipped overlap is what the schedule was configured for: it is not a missed slot.
      if (heldBy === null) missed = true;
      else logger.info({ ...skipped, heldBy }, "a slot was skipped");
    }
    return missed;
  }

  #pollIn(ms: number): void {
    if (!this.#active) return;
    const { clock } = this.#engine;
    const wait = Math.min(Math.max(0, ms), this.#tickMs);
    const at = clock.monotonic() + wait;
    if (this.#timer !== null && this.#timerAt <= at) return;
    this.#timer?.cancel();
    this.#timerAt = at;
    this.#timer = wait === 0 ? null : clock.after(wait, () => this.#pollNow(), { background: true });
    if (wait === 0) this.#pollNow();
  }

  #pollNow(): void {
    this.#timer = null;
    // One poll at a time; a request during a poll causes another one after it.
    if (this.#polling !== null) this.#pollAgain = true;
    else this.#polling = this.#poll();
  }

  async #poll(): Promise<void> {
    const { clock, events, random } = this.#engine;
    try {
      const { nextInMs, contended } = await this.#fireBatches(() => this.#active);
      this.#pollIn(contended ? CONTENTION_PAUSE_MS * (0.5 + random()) : nextInMs);
      if (clock.monotonic() >= this.#reportAt) await this.#reportUndefined();
      if (this.#failures > 0) events.emit("outageEnded", { doing: "schedules" });
      this.#failures = 0;
    } catch (error) {
      if (this.#failures === 0) events.emit("outage", { doing: "schedules", error });
      this.#pollIn(Math.min(RETRY_MS * 2 ** this.#failures++, MAX_RETRY_MS));
    }
    this.#polling = null;
    if (!this.#pollAgain) return;
    this.#pollAgain = false;
    this.#pollIn(0);
  }

  /**
   * Fires due schedules in batches, so that claims and other writes are not blocked. Schedules that become due meanwhile wait for
   * the next poll: otherwise a store that is too slow for its schedules would keep this loop running forever.
   */
  async #fireBatches(shouldContinue: () => boolean): Promise<PollResult> {
    const { store, logger } = this.#engine;
    let enqueued = 0;
    // Versions that other transactions have locked. They are not tried twice, so that they do not block the schedules behind them.
    const busy = new Set<string>();
    const isNotSkipped = ({ version }: StoredSchedule): boolean =>
      !(busy.has(version) || this.#locked.has(version) || this.#unreadable.has(version));
    const result = (nextInMs: number, contended = false): PollResult => ({
      enqueued,
      nextInMs,
      contended,
      busy: busy.size > 0,
    });
    const missed = new Set<string>();
    let startedAt = Number.POSITIVE_INFINITY;
    try {
      for (;;) {
        const skipped = busy.size + this.#locked.count().versions + this.#unreadable.count().versions;
        const { at, schedules, nextRunAt } = await store.dueSchedules(BATCH + skipped);
        startedAt = Math.min(startedAt, at);
        // By the store's clock: if ours is ahead, it would make us poll again immediately, in a busy loop.
        const nextInMs = Math.min(nextRunAt === null ? this.#tickMs : nextRunAt - at, this.#locked.count().nextInMs);
        const notSkipped = schedules.filter(isNotSkipped);
        const due = notSkipped.filter((schedule) => (schedule.nextRunAt ?? 0) <= startedAt);
        if (!shouldContinue() || notSkipped.length === 0) return result(nextInMs);
        if (due.length === 0) return result(1);
        let fired = 0;
        const planned = this.#plan(due, at);
        for (const part of batchesOf(planned, inputBytes, slotCount)) {
          for (const [{ schedule, firing }, outcome] of await this.#send(part)) {
            if (outcome.status === "busy") {
              busy.add(schedule.version);
              this.#locked.skip(schedule.version, RETRY_MS, MAX_RETRY_MS);
            }
            if (outcome.status !== "fired") continue;
            fired++;
            enqueued += outcome.slots.filter(({ job }) => job !== null).length;
            if (this.publish(schedule, firing, outcome)) missed.add(schedule.name);
          }
        }
        // A store in memory responds without leaving the event loop: this lets timers and sockets run.
        await new Promise((resolve) => setImmediate(resolve));
        const tried = planned.length === 0 ? due : planned.map(({ schedule }) => schedule);
        if (fired === 0 && tried.some(isNotSkipped)) return result(nextInMs, true);
      }
    } finally {
      // In one line: after a long downtime there may be thousands.
      if (missed.size > 0) {
        const [some, more] = [[...missed].slice(0, MAX_NAMES), missed.size - MAX_NAMES];
        const names = `${some.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
        logger.warn({ schedules: names }, "slots were missed; see slots of hf.schedules.get(name)");
      }
    }
  }

  /** Plans as many as possible in a few milliseconds; the others stay due. */
  #plan(schedules: readonly StoredSchedule[], at: number): Planned[] {
    const planned: Planned[] = [];
    const end = performance.now() + MAX_PLAN_MS;
    for (const schedule of schedules) {
      try {
        planned.push({ schedule, firing: planFiring(schedule, at) });
      } catch (error) {
        this.#skipUnreadable(schedule, error);
      }
      if (performance.now() > end) break;
    }
    return planned;
  }

  /** If a batch fails, its schedules are sent one by one: a bad one must not block the others. */
  async #send(part: readonly Planned[]): Promise<(readonly [Planned, FireResult])[]> {
    const { store } = this.#engine;
    try {
      const results = await store.fire(part.map(({ firing }) => firing));
      return part.map((planned, index) => [planned, results[index] ?? { status: "changed" }] as const);
    } catch (error) {
      if (part.length === 1 || isOutage(error)) throw error;
    }
    const sent: (readonly [Planned, FireResult])[] = [];
    const failed: { schedule: StoredSchedule; error: unknown }[] = [];
    for (const planned of part) {
      try {
        sent.push(...(await this.#send([planned])));
      } catch (error) {
        failed.push({ schedule: planned.schedule, error });
      }
    }
    // If all of them fail, the store is the cause.
    if (sent.length === 0) throw failed[0]?.error;
    for (const { schedule, error } of failed) this.#skipUnreadable(schedule, error);
    return sent;
  }

  /** Another process, with another version, may be able to read it. Its slots stay due until then, or until it is repaired. */
  #skipUnreadable({ name, version }: StoredSchedule, error: unknown): void {
    const { logger } = this.#engine;
    this.#unreadable.skip(version, UNREADABLE_MS);
    logger.error(
      { schedule: name, problem: messageOf(error) },
      "this process cannot read a schedule and skips its slots",
    );
  }

  /**
   * Reports schedules that no worker defines. Only workers that have stopped, or had no heartbeat for 10 minutes, are left out.
   * Not `isLive`: a worker that is silent for a minute may only be slow, and each schedule is reported once. The schedules are
   * never deleted: the deployment may have been rolled back only for a while.
   */
  async #reportUndefined(): Promise<void> {
    const { store, clock, events, logger, definedSchedules } = this.#engine;
    this.#reportAt = clock.monotonic() + REPORT_MS;
    const since = clock.now() - DEFAULTS.unknownTypeMs;
    const workers = (await store.workers()).filter((worker) => !worker.left && worker.seenAt >= since);
    // A worker that defines more schedules than its record can list makes the list incomplete.
    if (workers.some((worker) => worker.schedules === null)) return;
    const known = new Set([...definedSchedules, ...workers.flatMap((worker) => worker.schedules ?? [])]);
    let cursor: string | null = null;
    do {
      const page: Awaited<ReturnType<typeof store.listSchedules>> = await store.listSchedules(
        { origin: "code" },
        { limit: REPORT_PAGE, cursor },
      );
      for (const { name } of page.schedules) {
        if (known.has(name) || this.#reported.has(name)) continue;
        this.#reported.add(name);
        events.emit("undefinedSchedule", { schedule: name });
        logger.warn(
          { schedule: name },
          "no worker's code defines this schedule any more; it stays until hf.unschedule(name) deletes it",
        );
      }
      cursor = page.cursor;
    } while (cursor !== null);
  }
}

interface Planned {
  schedule: StoredSchedule;
  firing: Firing;
}

function inputBytes({ firing }: Planned): number {
  return firing.slots.reduce((sum, { job }) => sum + (job?.input.length ?? 0), 0);
}

function slotCount({ firing }: Planned): number {
  return firing.slots.length;
}
