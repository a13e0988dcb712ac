import { systemClock, type Clock } from "../../clock.js";
import type { Store } from "../../store.js";
import { fakeClock, type FakeClock } from "../clock.js";
import type { CallerTransaction, StoreHarness, StoreUnderTest, TestRunner } from "./harness.js";

/** The argument of a case: a new store, and functions to open more handles. */
export interface SceneOn<C extends Clock> {
  store: Store;
  clock: C;
  /** Another handle on the same database; closed at the end of the case. */
  again: () => Promise<Store>;
  address: string;
  /** The module that opens the store in other processes; null: Holdfast opens it by its address. */
  opener: string | null;
  /** The number of jobs in cases with many workers. */
  many: number;
  begin: () => Promise<CallerTransaction>;
}
export type Scene = SceneOn<FakeClock>;
export type LiveScene = SceneOn<Clock>;

/** Optional features that a case may need. A store without them skips the case. */
export type Need = "a new database" | "another handle" | "strict order" | "push" | "transactions" | "signals";

/** Defines a case with a fake clock; `live` defines one with the system clock. */
export interface DefineCase {
  (title: string, body: (scene: Scene) => Promise<void>): void;
  needing(needs: readonly Need[], title: string, body: (scene: Scene) => Promise<void>): void;
  live(needs: readonly Need[], title: string, body: (scene: LiveScene) => Promise<void>): void;
}

const MANY = 10_000;
// Far longer than any case takes: only a store that hangs should reach it, not a busy machine.
const CASE_TIMEOUT_MS = 120_000;

export function caseDefiner(runner: TestRunner, harness: StoreHarness): DefineCase {
  function define<C extends Clock>(
    makeClock: () => C,
    needs: readonly Need[],
    title: string,
    body: (scene: SceneOn<C>) => Promise<void>,
  ): void {
    runner.it(
      title,
      async (context) => {
        const reason = excuse(harness, title) ?? (await play(harness, makeClock(), needs, body));
        if (reason !== undefined) context.skip(reason);
      },
      CASE_TIMEOUT_MS,
    );
  }
  return Object.assign(
    (title: string, body: (scene: Scene) => Promise<void>): void => define(fakeClock, [], title, body),
    {
      needing: (needs: readonly Need[], title: string, body: (scene: Scene) => Promise<void>): void =>
        define(fakeClock, needs, title, body),
      live: (needs: readonly Need[], title: string, body: (scene: LiveScene) => Promise<void>): void =>
        define(() => systemClock, needs, title, body),
    },
  );
}

function excuse(harness: StoreHarness, title: string): string | undefined {
  return Object.entries(harness.skip ?? {}).find(([beginning]) => title.startsWith(beginning))?.[1];
}

/** Runs a case on a new store and cleans up. Returns the reason if the case was skipped. */
async function play<C extends Clock>(
  harness: StoreHarness,
  clock: C,
  needs: readonly Need[],
  body: (scene: SceneOn<C>) => Promise<void>,
): Promise<string | undefined> {
  const unmigrated = needs.includes("a new database");
  const under = await (unmigrated ? harness.createUnmigrated?.(clock) : harness.create(clock));
  if (under === undefined) return "the harness has no createUnmigrated";
  const handles = [under.store];
  const lack = needs.map((need) => lackOf(under, need)).find((found) => found !== undefined);
  const [played] = await Promise.allSettled(lack === undefined ? [body(sceneOf(under, clock, handles, harness))] : []);
  const cleared = [
    ...(await Promise.allSettled(handles.map((handle) => handle.close()))),
    ...(await Promise.allSettled([under.dispose()])),
  ];
  // The case's own failure first: errors of the cleanup are often its consequence.
  for (const end of [played, ...cleared]) if (end?.status === "rejected") throw end.reason;
  return lack;
}

function lackOf(under: StoreUnderTest, need: Need): string | undefined {
  const { capabilities } = under.store;
  switch (need) {
    case "a new database":
      return undefined;
    case "another handle":
      return under.address === null ? "the database has no address that another handle could open" : undefined;
    case "strict order":
      return capabilities.strictOrder ? undefined : "the store does not claim in strict order";
    case "push":
      return capabilities.push ? undefined : "the store does not wake other processes";
    case "transactions":
      if (!capabilities.transactions) return "the store does not support the caller's transactions";
      return under.begin === undefined ? "the harness has no begin" : undefined;
    case "signals":
      return process.platform === "win32" ? "Windows cannot stop and resume a process" : undefined;
  }
}

function sceneOf<C extends Clock>(
  under: StoreUnderTest,
  clock: C,
  handles: Store[],
  harness: StoreHarness,
): SceneOn<C> {
  return {
    store: under.store,
    clock,
    address: under.address ?? "",
    opener: harness.opener ?? null,
    many: harness.many ?? MANY,
    async again() {
      const handle = await under.again();
      handles.push(handle);
      return handle;
    },
    async begin() {
      if (under.begin === undefined) throw new Error("a case that calls begin must need transactions");
      return under.begin();
    },
  };
}

/** Opens `count` handles; the same handle each time if the database cannot be opened twice. */
export async function handlesOf(scene: LiveScene, count: number): Promise<Store[]> {
  if (scene.address === "") return Array.from({ length: count }, () => scene.store);
  return Promise.all(Array.from({ length: count }, () => scene.again()));
}
