import { NEVER } from "../schedule/slots.js";
import type { FiredSlot, Firing, NewJob, ScheduleFilter, ScheduleRecord, Store, StoredSchedule } from "../store.js";
import { must, same } from "./model-check.js";
import type { JobDraft } from "./model-commands.js";
import { pick } from "./model-names.js";
import { RUN_KEYS, SCHEDULES } from "./model-schedule-commands.js";
import type { FiringDraft, NextRun, ScheduleCommand, ScheduleDraft, VersionPick } from "./model-schedule-commands.js";
import { dueTime } from "./model-schedules.js";
import type { StoreModel } from "./model.js";

/** The parts of a comparison that schedules share with jobs. */
export interface Surroundings {
  model: StoreModel;
  /** Every job ever inserted. */
  asked: ReadonlyMap<string, NewJob>;
  /** The handle of this worker; the first handle by default. */
  storeOf: (worker?: string) => Store;
  /** Creates a job from the draft, with a new id or this one. */
  newJob: (draft: JobDraft, id?: string) => NewJob;
  /** Called when the store reports that this job is new. */
  inserted: (job: NewJob) => void;
  /** Adds a readable description of the command. */
  touched: (what: string) => void;
}

const NO_VERSION = "v0";
const SLOT_MS = 1_000;
// Small, so that cursors are used.
const PAGE = 2;
const FILTERS: readonly ScheduleFilter[] = [
  { origin: "code" },
  { enabled: false },
  { enabled: true, origin: "runtime" },
  { type: "send" },
  { user: "ann" },
];

/** Runs commands on schedules on a store and on the model, and compares the results. */
export class ScheduleComparison {
  readonly #around: Surroundings;
  /** Every version that ever existed. */
  readonly #versions: string[] = [];
  /** Versions and last slots by the store's own results: a mistake shared with the model would pass every comparison. */
  readonly #current = new Map<string, { version: string; lastSlot: number | null }>();
  #numbered = 0;

  constructor(around: Surroundings) {
    this.#around = around;
  }

  async do(command: ScheduleCommand, now: number): Promise<void> {
    switch (command.do) {
      case "putSchedule":
        return this.#put(command, now);
      case "removeSchedule":
        return this.#remove(this.#nameOf(command.nth));
      case "dueSchedules":
        return this.#due(command.limit, this.#around.storeOf(command.worker), now);
      case "fire":
        return this.#fire(command.firings, this.#around.storeOf(command.worker), now);
    }
  }

  /** All schedules, with and without slots, and the due ones equal the model. */
  async check(now: number): Promise<void> {
    const { model } = this.#around;
    const store = this.#around.storeOf();
    same((await listed(store, {})).map(visible), model.schedules.list({}).map(visible), "the schedules, as listed");
    const expected = [...model.schedules.all.values()];
    const found = await Promise.all(expected.map(({ name }) => store.getSchedule(name)));
    same(
      found.map((schedule) => schedule && visible(schedule)),
      expected.map(visible),
      "the schedules with their slots",
    );
    await this.#due(PAGE, store, now);
  }

  /** Filters of schedules and of their jobs return the same as the model. */
  async checkLists(): Promise<void> {
    const { model } = this.#around;
    const store = this.#around.storeOf();
    for (const filter of FILTERS) {
      const names = (await listed(store, filter)).map(({ name }) => name);
      same(
        names,
        model.schedules.list(filter).map(({ name }) => name),
        `the schedules with ${JSON.stringify(filter)}`,
      );
    }
    for (const schedule of SCHEDULES) {
      const there = (await store.getSchedule(schedule)) !== null;
      same(there, model.schedules.all.has(schedule), `whether the schedule ${schedule} exists`);
      const { jobs } = await store.list({ schedule }, { limit: 1_000, cursor: null });
      const expected = [...model.jobs.values()].filter((job) => job.schedule?.name === schedule);
      same(
        new Set(jobs.map(({ id }) => id)),
        new Set(expected.map(({ id }) => id)),
        `the jobs of schedule ${schedule}`,
      );
    }
  }

  async #put({ name, over, schedule, worker }: ScheduleCommand & { do: "putSchedule" }, now: number): Promise<void> {
    const { model, storeOf } = this.#around;
    const there = model.schedules.all.has(name) || over.of === "stale";
    const version = over.of === "none" || !there ? null : this.#versionOf(name, over);
    const record = this.#recordOf(name, schedule, now);
    const result = await storeOf(worker).putSchedule(record, version);
    same(result, model.schedules.put(record, version, now), "the result of putSchedule");
    if (result === "changed") return;
    const before = this.#replaces(name, version);
    this.#current.set(name, { version: record.version, lastSlot: before?.lastSlot ?? null });
  }

  async #remove(name: string): Promise<void> {
    const { model, storeOf, touched } = this.#around;
    touched(name);
    same(await storeOf().removeSchedule(name), model.schedules.remove(name), "the result of removeSchedule");
    this.#current.delete(name);
  }

  async #due(limit: number, store: Store, now: number): Promise<void> {
    const { schedules: model } = this.#around.model;
    const { at, schedules, nextRunAt } = await store.dueSchedules(limit);
    same({ at, nextRunAt }, { at: now, nextRunAt: model.nextRunAt(now) }, "the result of dueSchedules");
    const due = model.due(now);
    // Schedules due at the same time may have any order.
    same(schedules.map(dueTime), due.slice(0, limit).map(dueTime), "the times of the due schedules");
    const expected = schedules.map(({ name }) => due.find((schedule) => schedule.name === name));
    same(
      schedules.map(visible),
      expected.map((schedule) => schedule && visible(schedule)),
      "the due schedules",
    );
    same(new Set(schedules.map(({ name }) => name)).size, schedules.length, "the number of due schedules");
  }

  async #fire(drafts: readonly FiringDraft[], store: Store, now: number): Promise<void> {
    const { model, touched, inserted } = this.#around;
    const firings = this.#firingsOf(drafts, now);
    for (const { name, version, slots } of firings) {
      touched(`${name} ${version} (${slots.map(({ job }) => job?.id ?? "no job").join(", ")})`);
    }
    const results = await store.fire(firings);
    const present = new Set(model.jobs.keys());
    const expected = firings.map((firing) => model.schedules.fire(firing, now));
    same(results, expected, "the results of fire");
    for (const [at, firing] of firings.entries()) {
      const result = results[at];
      if (result?.status !== "fired") continue;
      const before = this.#replaces(firing.name, firing.version);
      must(
        (firing.lastSlot ?? Number.NEGATIVE_INFINITY) >= (before?.lastSlot ?? Number.NEGATIVE_INFINITY),
        () => `the last slot of ${firing.name} moved back from ${before?.lastSlot} to ${firing.lastSlot}`,
      );
      this.#current.set(firing.name, { version: firing.newVersion, lastSlot: firing.lastSlot });
      for (const [nth, { job }] of firing.slots.entries()) {
        // The key may still be held by the deleted job with the same id: then it counts as inserted, but does not exist.
        const isNew = job !== null && !present.has(job.id) && model.jobs.has(job.id);
        if (isNew && result.slots[nth]?.job === job.id) inserted(job);
      }
    }
  }

  /** A version is replaced only once; later changes based on it must fail. */
  #replaces(name: string, version: string | null): { lastSlot: number | null } | undefined {
    const current = this.#current.get(name);
    must(
      (current?.version ?? null) === version,
      () => `${name} was replaced over version ${version}, but had ${current?.version ?? "no version"}`,
    );
    return current;
  }

  /** Each schedule and each job once, because the engine reads and fires each due schedule once. */
  #firingsOf(drafts: readonly FiringDraft[], now: number): Firing[] {
    const byName = new Map<string, Firing>();
    const used = new Set<string>();
    for (const draft of drafts) {
      const name = this.#nameOf(draft.nth);
      if (!byName.has(name)) byName.set(name, this.#firingOf(name, draft, used, now));
    }
    return [...byName.values()];
  }

  /** An existing schedule, if there is one. */
  #nameOf(nth: number): string {
    return pick([...this.#around.model.schedules.all.keys()], nth) ?? SCHEDULES[0] ?? "";
  }

  #firingOf(name: string, draft: FiringDraft, used: Set<string>, now: number): Firing {
    const stored = this.#around.model.schedules.all.get(name);
    const known = stored?.lastSlot ?? null;
    let slot = known ?? now;
    const slots = draft.slots.flatMap(({ job, stretch, reason, times }) =>
      Array.from({ length: times }, (): FiredSlot => {
        slot += SLOT_MS;
        const through = stretch ? slot + SLOT_MS / 2 : null;
        return { slot, through, job: job && this.#slotJob(job, { name, slot }, used), reason };
      }),
    );
    const last = slots.at(-1);
    const moves = {
      on: last === undefined ? known : (last.through ?? last.slot),
      stays: known,
      back: known === null ? null : known - 1,
      forgotten: null,
    };
    return {
      name,
      version: this.#versionOf(name, draft.version),
      newVersion: this.#newVersion(),
      nextRunAt: instantOf(draft.nextRun, now),
      lastSlot: moves[draft.lastSlot],
      slots,
    };
  }

  #slotJob(draft: JobDraft, schedule: { name: string; slot: number }, used: Set<string>): NewJob {
    const { asked, newJob } = this.#around;
    const repeated = draft.again === null ? undefined : pick([...asked.keys()], draft.again);
    const job = newJob(draft, repeated === undefined || used.has(repeated) ? undefined : repeated);
    used.add(job.id);
    const key = RUN_KEYS[schedule.name];
    const unique = job.unique === null || key === undefined ? null : { ...job.unique, key };
    return { ...job, unique, schedule };
  }

  #recordOf(name: string, draft: ScheduleDraft, now: number): ScheduleRecord {
    const { cron, nextRun, inputBytes, ...given } = draft;
    const n = this.#versions.length;
    return {
      ...given,
      name,
      version: this.#newVersion(),
      priority: n % 7,
      input: JSON.stringify({ n, padding: "x".repeat(inputBytes) }),
      maxAttempts: 1 + (n % 3),
      expiresAfterMs: cron ? 60_000 : null,
      cron: cron ? "0 8 * * 1-5" : null,
      timezone: cron ? "Europe/Berlin" : null,
      everyMs: cron ? null : 60_000,
      startAt: cron ? now : null,
      endAt: cron ? now + n : null,
      jitterMs: n,
      defined: given.origin === "code" ? `{"n":${n}}` : null,
      changes: given.origin === "code" ? "{}" : null,
      nextRunAt: instantOf(nextRun, now),
    };
  }

  #versionOf(name: string, { of, nth }: VersionPick): string {
    const current = this.#around.model.schedules.all.get(name)?.version ?? NO_VERSION;
    if (of === "right") return current;
    return (
      pick(
        this.#versions.filter((version) => version !== current),
        nth,
      ) ?? NO_VERSION
    );
  }

  #newVersion(): string {
    const version = `v${++this.#numbered}`;
    this.#versions.push(version);
    return version;
  }
}

function instantOf(nextRun: NextRun, now: number): number | null {
  if (nextRun === "never") return NEVER;
  return nextRun === null ? null : now + nextRun;
}

async function listed(store: Store, filter: ScheduleFilter): Promise<StoredSchedule[]> {
  const schedules: StoredSchedule[] = [];
  let cursor: string | null = null;
  do {
    const page = await store.listSchedules(filter, { limit: PAGE, cursor });
    schedules.push(...page.schedules);
    cursor = page.cursor;
  } while (cursor !== null);
  return schedules;
}

/** The fields that the contract defines. It does not define when a record was updated. */
function visible({ updatedAt: _, ...schedule }: StoredSchedule): object {
  return schedule;
}
