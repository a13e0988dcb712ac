import { holdfast, type Holdfast, type HoldfastOptions, type Schedule } from "holdfast";
import { sqlite } from "holdfast/sqlite";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { onTestFinished } from "vitest";
import { watch, type WatchedStore } from "../engine/scene.js";
import { cleanup, double, fileStore, START } from "./scene.js";

export { after, DAY, HOUR, MINUTE, slotsMade } from "../engine/schedule-scene.js";

export const PLACES = ["in memory", "on a file"] as const;
export type Place = (typeof PLACES)[number];

export interface ScheduleScene {
  readonly hf: Holdfast;
  readonly clock: FakeClock;
  readonly store: WatchedStore;
  /** The version of a schedule, which every change replaces. */
  readonly versionOf: (name: string) => Promise<string | undefined>;
  /** Another client on the same file with the same clock, like another process. */
  readonly another: (options?: HoldfastOptions) => Promise<Holdfast>;
}

/** A client on a watched store, with a fake clock and no running scheduler. */
export async function openOn(place: Place, options: HoldfastOptions = {}): Promise<ScheduleScene> {
  const clock = fakeClock(START);
  const file = place === "in memory" ? ":memory:" : (await fileStore()).slice("sqlite:".length);
  const store = watch(sqlite(file, { clock }));
  const make = async (more: HoldfastOptions): Promise<Holdfast> => {
    const hf = await holdfast({ jobs: [cleanup, double], clock, logger: false, random: () => 0.5, ...more });
    onTestFinished(() => hf.close());
    return hf;
  };
  return {
    hf: await make({ ...options, store: store.store }),
    clock,
    store,
    versionOf: async (name) => (await store.store.getSchedule(name))?.version,
    another: (more = options) => make({ ...more, store: sqlite(file, { clock }) }),
  };
}

/** The schedule, which must exist. */
export async function scheduleOf(hf: Holdfast, name: string): Promise<Schedule> {
  const found = await hf.schedules.get(name);
  if (found === null) throw new Error(`no schedule ${name}`);
  return found;
}

/** The settings of a schedule, without its state. */
export function settingsOf(schedule: Schedule): Omit<Schedule, keyof typeof FACTS> {
  return Object.fromEntries(Object.entries(schedule).filter(([field]) => !Object.hasOwn(FACTS, field))) as Omit<
    Schedule,
    keyof typeof FACTS
  >;
}
const FACTS = {
  name: true,
  origin: true,
  changed: true,
  nextRunAt: true,
  lastSlot: true,
  createdAt: true,
  updatedAt: true,
  slots: true,
} as const;
