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
import { LeftAlone } from "./backoff-map.js";

// Schedules asked for at a time, and for how long they are planned before the event loop has its turn.
const BATCH = 100;
const PLAN_MS = 5;
// Several processes that see the same slot come all try; who came too late steps aside for about so long.
const STEP_ASIDE_MS = 100;
const TRIES = 5;
// A store that failed, or a schedule that somebody's transaction holds, is tried again soon, and then less and less often.
const RETRY_MS = 100;
const LONGEST_RETRY_MS = 5_000;
// Schedules that code no longer defines are looked for when those who start now have had time to define theirs.
const FIRST_REPORT_MS = 60_000;
const REPORT_MS = 300_000;
const REPORT_PAGE = 100;
// A schedule that cannot be read here is left to others, and tried again after so long.
const UNREADABLE_MS = 3_600_000;
// Names in one line of the log.
const SHOWN = 5;

interface Look {
  made: number;
  /** When to look again. */
  nextInMs: number;
  /** Somebody else was quicker. */
  contended: boolean;
  /** Somebody's transaction holds some. */
  busy: boolean;
}

/**
 * Turns slots that have come into jobs. Every process may run one: the store makes each slot a job once, whoever asks,
 * so there is no leader to lose.
 */
export class Scheduler {
  readonly #engine: EngineContext;
  readonly #tickMs: number;
  #active = false;
  #timer: Timer | null = null;
  #timerAt = 0;
  #looking: Promise<void> | null = null;
  #again = false;
  #failures = 0;
  #unlisten: (() => void) | null = null;
  #reportAt = 0;
  readonly #reported = new Set<string>();
  /** Those that this process cannot read. */
  readonly #unreadable: LeftAlone;
  /** Those that somebody's transaction held when they were tried. */
  readonly #held: LeftAlone;

  constructor(engine: EngineContext, tickMs: number) {
    this.#engine = engine;
    this.#tickMs = tickMs;
    this.#unreadable = new LeftAlone(engine.clock);
    this.#held = new LeftAlone(engine.clock);
  }

  start(): void {
    if (this.#active) return;
    this.#active = true;
    this.#reportAt = this.#engine.clock.monotonic() + FIRST_REPORT_MS;
    this.#unlisten = this.#engine.store.listen((hint) => {
      if (hint.kind === "schedules") this.#lookIn(0);
    });
    this.#lookIn(0);
  }

  /** No slot becomes a job after what is under way. */
  async stop(): Promise<void> {
    this.#active = false;
    this.#timer?.cancel();
    this.#unlisten?.();
    await this.#looking;
  }

  /** A schedule was put that runs then. */
  wake(nextRunAt: number | null): void {
    if (this.#active) this.#lookIn((nextRunAt ?? 0) - this.#engine.clock.now());
  }

  /** Turns every slot that has come into a job. Answers how many jobs that made. */
  async fireDue(): Promise<number> {
    let made = 0;
    for (let attempt = 1; ; attempt++) {
      // Whoever asks has reason to think that they can be had.
      this.#held.clear();
      const look = await this.#fire(() => true);
      made += look.made;
      if (!(look.contended || look.busy) || attempt === TRIES) return made;
      // Whoever was quicker may die over the rest; whoever holds some may be done.
      await new Promise((resolve) => setTimeout(resolve, STEP_ASIDE_MS));
    }
  }

  /** What is due of this one becomes a job as it is, before it is changed; or somebody else was quicker. */
  async fireOne(schedule: StoredSchedule, at: number): Promise<void> {
    await this.fireAlone(schedule, planFiring(schedule, at));
  }

  /** Fires this one, and tells listeners. Waits a while for a transaction that keeps it from that. */
  async fireAlone(schedule: StoredSchedule, firing: Firing): Promise<FireResult> {
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

  /** Tells listeners what the store has confirmed. True if a slot was missed. */
  publish(schedule: StoredSchedule, firing: Firing, answer: FireResult): boolean {
    if (answer.status !== "fired") return false;
    const { events, logger } = this.#engine;
    const { name, type, queue } = schedule;
    let missed = false;
    for (const [index, { slot, through, reason }] of firing.slots.entries()) {
      const { job = null, heldBy = null } = answer.slots[index] ?? {};
      const at = new Date(slot);
      if (job !== null) {
        events.emit("enqueued", { id: job, type, queue, replaced: false });
        events.emit("fired", { schedule: name, slot: at, id: job, reason });
        continue;
      }
      const why: SlotReason = heldBy === null ? (reason ?? "refused: the store made no job") : OVERLAP;
      const skipped = { schedule: name, slot: at, through: through === null ? null : new Date(through), reason: why };
      events.emit("skipped", { ...skipped, heldBy });
      // Not to overlap is what such a schedule was asked to do.
      if (heldBy === null) missed = true;
      else logger.info({ ...skipped, heldBy }, "a slot was skipped");
    }
    return missed;
  }

  #lookIn(ms: number): void {
    if (!this.#active) return;
    const { clock } = this.#engine;
    const wait = Math.min(Math.max(0, ms), this.#tickMs);
    const at = clock.monotonic() + wait;
    if (this.#timer !== null && this.#timerAt <= at) return;
    this.#timer?.cancel();
    this.#timerAt = at;
    this.#timer = wait === 0 ? null : clock.after(wait, () => this.#lookNow(), { background: true });
    if (wait === 0) this.#lookNow();
  }

  #lookNow(): void {
    this.#timer = null;
    // One look at a time; what comes up meanwhile is looked at after it.
    if (this.#looking !== null) this.#again = true;
    else this.#looking = this.#look();
  }

  async #look(): Promise<void> {
    const { clock, events, random } = this.#engine;
    try {
      const { nextInMs, contended } = await this.#fire(() => this.#active);
      this.#lookIn(contended ? STEP_ASIDE_MS * (0.5 + random()) : nextInMs);
      if (clock.monotonic() >= this.#reportAt) await this.#reportUndefined();
      if (this.#failures > 0) events.emit("outageEnded", { doing: "schedules" });
      this.#failures = 0;
    } catch (error) {
      if (this.#failures === 0) events.emit("outage", { doing: "schedules", error });
      this.#lookIn(Math.min(RETRY_MS * 2 ** this.#failures++, LONGEST_RETRY_MS));
    }
    this.#looking = null;
    if (!this.#again) return;
    this.#again = false;
    this.#lookIn(0);
  }

  /**
   * In batches, so that claims and other writes get in between. What falls due meanwhile is left to the next look: a
   * store too slow for its schedules must not keep this from ever ending.
   */
  async #fire(goOn: () => boolean): Promise<Look> {
    const { store, logger } = this.#engine;
    let made = 0;
    /** Versions that somebody's transaction holds: none is tried twice, or those behind it might never have their turn. */
    const busy = new Set<string>();
    const isOpen = ({ version }: StoredSchedule): boolean =>
      !(busy.has(version) || this.#held.has(version) || this.#unreadable.has(version));
    const look = (nextInMs: number, contended = false): Look => ({ made, nextInMs, contended, busy: busy.size > 0 });
    const missed = new Set<string>();
    let begun = Number.POSITIVE_INFINITY;
    try {
      for (;;) {
        const passedOver = busy.size + this.#held.count().versions + this.#unreadable.count().versions;
        const { at, schedules, nextRunAt } = await store.dueSchedules(BATCH + passedOver);
        begun = Math.min(begun, at);
        // By the store's clock: ours may be ahead of it, and would have us ask again at once, for as long as it is.
        const nextInMs = Math.min(nextRunAt === null ? this.#tickMs : nextRunAt - at, this.#held.count().nextInMs);
        const due = schedules.filter(isOpen);
        const open = due.filter((schedule) => (schedule.nextRunAt ?? 0) <= begun);
        if (!goOn() || due.length === 0) return look(nextInMs);
        if (open.length === 0) return look(1);
        let moved = 0;
        const planned = this.#plan(open, at);
        for (const part of batchesOf(planned, inputBytes, slotCount)) {
          for (const [{ schedule, firing }, answer] of await this.#send(part)) {
            if (answer.status === "busy") {
              busy.add(schedule.version);
              this.#held.leave(schedule.version, RETRY_MS, LONGEST_RETRY_MS);
            }
            if (answer.status !== "fired") continue;
            moved++;
            made += answer.slots.filter(({ job }) => job !== null).length;
            if (this.publish(schedule, firing, answer)) missed.add(schedule.name);
          }
        }
        // A store in memory answers within the turn: whatever else waits for the event loop has its turn here.
        await new Promise((resolve) => setImmediate(resolve));
        const tried = planned.length === 0 ? open : planned.map(({ schedule }) => schedule);
        if (moved === 0 && tried.some(isOpen)) return look(nextInMs, true);
      }
    } finally {
      // In one line: after a night's sleep there may be thousands.
      if (missed.size > 0) {
        const [some, more] = [[...missed].slice(0, SHOWN), missed.size - SHOWN];
        const names = `${some.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
        logger.warn({ schedules: names }, "slots were missed; hf.schedules.get(name) tells which, in slots");
      }
    }
  }

  /** As many as can be planned in a moment; the rest is due still. */
  #plan(schedules: readonly StoredSchedule[], at: number): Planned[] {
    const planned: Planned[] = [];
    const end = performance.now() + PLAN_MS;
    for (const schedule of schedules) {
      try {
        planned.push({ schedule, firing: planFiring(schedule, at) });
      } catch (error) {
        this.#leaveAlone(schedule, error);
      }
      if (performance.now() > end) break;
    }
    return planned;
  }

  /** One that the store cannot take must not keep the others from theirs. */
  async #send(part: readonly Planned[]): Promise<(readonly [Planned, FireResult])[]> {
    const { store } = this.#engine;
    try {
      const answers = await store.fire(part.map(({ firing }) => firing));
      return part.map((planned, index) => [planned, answers[index] ?? { status: "changed" }] as const);
    } catch (error) {
      if (part.length === 1 || isOutage(error)) throw error;
    }
    const answered: (readonly [Planned, FireResult])[] = [];
    const failed: { schedule: StoredSchedule; error: unknown }[] = [];
    for (const planned of part) {
      try {
        answered.push(...(await this.#send([planned])));
      } catch (error) {
        failed.push({ schedule: planned.schedule, error });
      }
    }
    // If none gets through, it is the store and not them.
    if (answered.length === 0) throw failed[0]?.error;
    for (const { schedule, error } of failed) this.#leaveAlone(schedule, error);
    return answered;
  }

  /** Another process may be able to read it; its slots wait for that, or for somebody to mend it. */
  #leaveAlone({ name, version }: StoredSchedule, error: unknown): void {
    const { logger } = this.#engine;
    this.#unreadable.leave(version, UNREADABLE_MS);
    logger.error(
      { schedule: name, problem: messageOf(error) },
      "this process cannot read a schedule, and leaves its slots alone",
    );
  }

  /** Code that is gone does not say goodbye: what no live worker defines any more is told, never deleted. */
  async #reportUndefined(): Promise<void> {
    const { store, clock, events, logger, definedSchedules } = this.#engine;
    this.#reportAt = clock.monotonic() + REPORT_MS;
    const since = clock.now() - DEFAULTS.unknownTypeMs;
    const workers = (await store.workers()).filter((worker) => !worker.left && worker.seenAt >= since);
    // Somebody defines more than can be listed: nothing can be said.
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
