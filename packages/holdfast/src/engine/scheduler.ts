import type { Timer } from "../clock.js";
import { DEFAULTS, LIMITS } from "../defaults.js";
import type { FireAnswer, Firing, StoredSchedule } from "../store.js";
import type { Core } from "./core.js";
import { planFiring } from "./firing.js";
import { OVERLAP } from "../schedule/slots.js";

// Schedules dealt with between two looks at the event loop: each takes some ten microseconds to plan.
const BATCH = 100;
// Several processes that see the same slot come all try; who came too late steps aside for about so long.
const STEP_ASIDE_MS = 100;
// How often schedules that code no longer defines are looked for.
const UNDEFINED_MS = 300_000;

/**
 * Turns slots that have come into jobs. Every process may run one: the store makes each slot a job once, whoever asks,
 * so there is no leader to lose.
 */
export class Scheduler {
  readonly #core: Core;
  readonly #tickMs: number;
  #active = false;
  #timer: Timer | null = null;
  #timerAt = 0;
  #looking: Promise<void> | null = null;
  #again = false;
  #failing = false;
  #unlisten: (() => void) | null = null;
  #lookForUndefinedAt = 0;
  readonly #reported = new Set<string>();

  constructor(core: Core, tickMs: number) {
    this.#core = core;
    this.#tickMs = tickMs;
  }

  start(): void {
    if (this.#active) return;
    this.#active = true;
    this.#lookForUndefinedAt = this.#core.clock.monotonic() + this.#tickMs;
    this.#unlisten = this.#core.store.listen((hint) => {
      if (hint.kind === "schedules") this.#lookIn(0);
    });
    this.#lookIn(0);
  }

  async stop(): Promise<void> {
    this.#active = false;
    this.#timer?.cancel();
    this.#unlisten?.();
    await this.#looking;
  }

  /** A schedule was put that runs then. */
  wake(nextRunAt: number | null): void {
    if (this.#active) this.#lookIn((nextRunAt ?? 0) - this.#core.clock.now());
  }

  /** Turns every slot that has come into a job. Answers how many jobs that made. */
  async fireDue(): Promise<number> {
    return (await this.#fire()).made;
  }

  /** Tells listeners and log what the store has confirmed. */
  announce(schedule: StoredSchedule, firing: Firing, answer: FireAnswer): void {
    if (answer.status !== "fired") return;
    const { events, logger } = this.#core;
    const { name, type, queue } = schedule;
    for (const [index, { slot, through, reason }] of firing.slots.entries()) {
      const { job = null, heldBy = null } = answer.slots[index] ?? {};
      const at = new Date(slot);
      if (job === null) {
        const why = heldBy === null ? (reason ?? "the store refused the job") : OVERLAP;
        const skipped = { schedule: name, slot: at, through: through === null ? null : new Date(through), reason: why };
        events.emit("skipped", { ...skipped, heldBy });
        // Not to overlap is what such a schedule was asked to do.
        if (heldBy === null) logger.warn(skipped, "a slot was skipped");
        else logger.info({ ...skipped, heldBy }, "a slot was skipped");
      } else {
        events.emit("enqueued", { id: job, type, queue, replaced: false });
        events.emit("fired", { schedule: name, slot: at, id: job, reason });
      }
    }
  }

  #lookIn(ms: number): void {
    if (!this.#active) return;
    const { clock } = this.#core;
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
    const { clock, events, random } = this.#core;
    try {
      const { nextInMs, contended } = await this.#fire();
      this.#lookIn(contended ? STEP_ASIDE_MS * (0.5 + random()) : nextInMs);
      if (clock.monotonic() >= this.#lookForUndefinedAt) await this.#reportUndefined();
      if (this.#failing) events.emit("back", { doing: "schedules" });
      this.#failing = false;
    } catch (error) {
      if (!this.#failing) events.emit("outage", { doing: "schedules", error });
      this.#failing = true;
      this.#lookIn(this.#tickMs);
    }
    this.#looking = null;
    if (!this.#again) return;
    this.#again = false;
    this.#lookIn(0);
  }

  /** In batches, so that claims and other writes get in between. */
  async #fire(): Promise<{ made: number; nextInMs: number; contended: boolean }> {
    const { store } = this.#core;
    let made = 0;
    for (;;) {
      const { at, schedules, nextRunAt } = await store.dueSchedules(BATCH);
      // By the store's clock: ours may be ahead of it, and would have us ask again at once, for as long as it is.
      const nextInMs = nextRunAt === null ? this.#tickMs : nextRunAt - at;
      if (schedules.length === 0) return { made, nextInMs, contended: false };
      const firings = schedules.map((schedule) => planFiring(schedule, at));
      let moved = 0;
      for (const part of parts(firings)) {
        const answers = await store.fire(part.map(({ firing }) => firing));
        for (const [index, { firing, at: place }] of part.entries()) {
          const answer = answers[index] ?? { status: "changed" };
          if (answer.status === "changed") continue;
          moved++;
          made += answer.slots.filter(({ job }) => job !== null).length;
          this.announce(schedules[place] as StoredSchedule, firing, answer);
        }
      }
      // A store in memory answers within the turn: whatever else waits for the event loop has its turn here.
      await new Promise((resolve) => setImmediate(resolve));
      // Somebody else was quicker with all of them, and is at it.
      if (moved === 0) return { made, nextInMs, contended: true };
    }
  }

  /** Code that is gone does not say goodbye: what no live worker defines any more is told, never deleted. */
  async #reportUndefined(): Promise<void> {
    const { store, clock, events, logger, defined } = this.#core;
    this.#lookForUndefinedAt = clock.monotonic() + UNDEFINED_MS;
    const since = clock.now() - DEFAULTS.unknownTypeMs;
    const workers = (await store.workers()).filter((worker) => !worker.left && worker.seenAt >= since);
    const known = new Set([...defined, ...workers.flatMap((worker) => worker.schedules)]);
    let cursor: string | null = null;
    do {
      const page: Awaited<ReturnType<typeof store.listSchedules>> = await store.listSchedules(
        { origin: "code" },
        { limit: LIMITS.listPage, cursor },
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

/** As many as fit into one transaction, with their places in the list. */
function parts(firings: readonly Firing[]): { firing: Firing; at: number }[][] {
  const all: { firing: Firing; at: number }[][] = [[]];
  let bytes = 0;
  let jobs = 0;
  for (const [at, firing] of firings.entries()) {
    const size = firing.slots.reduce((sum, { job }) => sum + (job?.input.length ?? 0), 0);
    const full = bytes + size > LIMITS.batchBytes || jobs + firing.slots.length > LIMITS.batchJobs;
    if (full && jobs > 0) {
      all.push([]);
      bytes = 0;
      jobs = 0;
    }
    bytes += size;
    jobs += firing.slots.length;
    all.at(-1)?.push({ firing, at });
  }
  return all;
}
