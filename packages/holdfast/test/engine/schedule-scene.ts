import { holdfast, job, type Holdfast, type HoldfastOptions, type Job, type JobType, type NoInput } from "holdfast";
import type { Store } from "holdfast";
import { sqlite } from "holdfast/sqlite";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { folder } from "./scene.js";

export const START: number = Date.UTC(2026, 0, 1);
export const SECOND = 1_000;
export const MINUTE = 60_000;
export const HOUR = 3_600_000;
export const DAY = 86_400_000;

/** An instant this many milliseconds after the clock's start. */
export function after(ms: number): Date {
  return new Date(START + ms);
}

/** Multiples of a step after the clock's start, from one to another. */
export function steps(stepMs: number, from: number, to: number): Date[] {
  return Array.from({ length: to - from + 1 }, (_, index) => after((from + index) * stepMs));
}

/** A job type that records its slot and time. */
export function noting(clock: () => FakeClock): { type: JobType<NoInput>; ran: { slot: Date | null; at: Date }[] } {
  const ran: { slot: Date | null; at: Date }[] = [];
  const type = job({
    type: "noting",
    run({ job: { schedule } }) {
      ran.push({ slot: schedule?.slot ?? null, at: new Date(clock().now()) });
    },
  });
  return { type, ran };
}

/** All jobs of a schedule, by slot. */
export async function jobsOf(hf: Holdfast, schedule: string): Promise<Job[]> {
  const all: Job[] = [];
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<Holdfast["list"]>> = await hf.list({ schedule, limit: 1_000, cursor });
    all.push(...page.jobs);
    cursor = page.cursor;
  } while (cursor !== null);
  return all.toSorted((a, b) => Number(a.schedule?.slot) - Number(b.schedule?.slot));
}

/** The slots that became jobs, oldest first. */
export async function slotsMade(hf: Holdfast, schedule: string): Promise<Date[]> {
  return (await jobsOf(hf, schedule)).map((made) => made.schedule?.slot ?? new Date(Number.NaN));
}

/** A database file that clients open and close like processes, with one fake clock. */
export async function processes(): Promise<{
  clock: FakeClock;
  open: (options?: Omit<HoldfastOptions, "store">) => Promise<Holdfast>;
}> {
  const clock = fakeClock(START);
  const file = join(await folder(), "jobs.db");
  return {
    clock,
    async open(options = {}) {
      const own = { clock, random: () => 0.5, logger: false, ...options } as const;
      const hf = await holdfast({ ...own, store: sqlite(file, { clock: own.clock }) });
      onTestFinished(() => hf.close());
      return hf;
    },
  };
}

/** Changes a stored schedule without any check, as in a database shell. */
export async function overwrite(
  store: Store,
  name: string,
  changes: Partial<NonNullable<Awaited<ReturnType<Store["getSchedule"]>>>>,
): Promise<void> {
  const stored = await store.getSchedule(name);
  if (stored === null) throw new Error(`no schedule ${name}`);
  const result = await store.putSchedule(
    { ...stored, ...changes, version: `${stored.version}, overwritten` },
    stored.version,
  );
  if (result !== "put") throw new Error(`${name} could not be written`);
}
