import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  holdfast,
  type EventName,
  type Events,
  type Holdfast,
  type HoldfastOptions,
  type Job,
  type Logger,
  type Store,
} from "holdfast";
import { sqlite } from "holdfast/sqlite";
import type { Hint } from "holdfast/store";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { onTestFinished, vi } from "vitest";
import { DEFAULTS } from "#src/defaults.js";

type Call = Exclude<keyof Store, "capabilities">;

/** A real store whose calls are counted, and can be made to fail or to wait. */
export interface WatchedStore {
  readonly store: Store;
  /** The arguments of every call of this name. */
  calls(name: Call): unknown[][];
  count(name: Call): number;
  total(): number;
  forget(): void;
  /** From now on these calls fail. Returns a function that ends this. */
  fail(error: Error, ...names: Call[]): () => void;
  /** From now on these calls wait. Returns a function that releases them. */
  hold(...names: Call[]): () => void;
}

/** Sends a hint to all later listeners of the store, like another process. */
export function hinting(store: Store): (hint: Hint) => void {
  const listeners: ((hint: Hint) => void)[] = [];
  const listen = store.listen.bind(store);
  store.listen = (listener) => {
    listeners.push(listener);
    return listen(listener);
  };
  return (hint) => {
    for (const listener of listeners) listener(hint);
  };
}

export function watch(store: Store): WatchedStore {
  let log: { name: string; args: unknown[] }[] = [];
  const failing = new Map<string, Error>();
  const held = new Map<string, Deferred<void>>();
  const proxy = new Proxy(store, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property);
      if (typeof value !== "function" || typeof property !== "string") return value;
      return (...args: unknown[]): unknown => {
        log.push({ name: property, args });
        const error = failing.get(property);
        if (error !== undefined) return Promise.reject(error);
        const run = (): unknown => Reflect.apply(value, target, args);
        const gate = held.get(property);
        return gate === undefined ? run() : gate.promise.then(run);
      };
    },
  });
  const calls = (name: Call): unknown[][] => log.filter((call) => call.name === name).map((call) => call.args);
  return {
    store: proxy,
    calls,
    count: (name) => calls(name).length,
    total: () => log.length,
    forget: () => void (log = []),
    fail(error, ...names) {
      for (const name of names) failing.set(name, error);
      return () => {
        for (const name of names) failing.delete(name);
      };
    },
    hold(...names) {
      const gate = deferred<void>();
      for (const name of names) held.set(name, gate);
      return () => {
        for (const name of names) held.delete(name);
        gate.resolve();
      };
    },
  };
}

export interface LogLine {
  level: "info" | "warn" | "error";
  fields: Record<string, unknown>;
  message: string;
}

export function recordingLogger(): { logger: Logger; lines: LogLine[] } {
  const lines: LogLine[] = [];
  const at =
    (level: LogLine["level"]) =>
    (fields: object, message: string): void =>
      void lines.push({ level, fields: fields as Record<string, unknown>, message });
  return { logger: { info: at("info"), warn: at("warn"), error: at("error") }, lines };
}

export type SceneOptions = Omit<HoldfastOptions, "store" | "clock" | "logger">;

export interface Scene {
  readonly hf: Holdfast;
  readonly clock: FakeClock;
  readonly store: WatchedStore;
  readonly lines: LogLine[];
  /** Another client on the same database, like another process. `way`: its own store object. */
  readonly another: (options?: SceneOptions, way?: Store) => Promise<Holdfast>;
  /** The job, which must exist. */
  readonly job: (id: string) => Promise<Job>;
}

/** A client on a SQLite database in memory, with a fake clock. Everything is closed after the test. */
export async function scene(options: SceneOptions = {}): Promise<Scene> {
  const clock = fakeClock();
  const real = sqlite(":memory:", { clock });
  const store = watch(shared(real));
  const { logger, lines } = recordingLogger();
  const clients: Holdfast[] = [];
  const another = async (more: SceneOptions = {}, way: Store = store.store): Promise<Holdfast> => {
    // The middle of the range: jitter is 0, and maintenance runs exactly at its interval.
    const client = await holdfast({ random: () => 0.5, ...more, store: way, clock, logger });
    clients.push(client);
    return client;
  };
  onTestFinished(async () => {
    const closing = Promise.all(clients.map((client) => client.close()));
    await clock.advance("2m");
    await closing;
    await real.close();
  });
  const hf = await another(options);
  const job = async (id: string): Promise<Job> => {
    const found = await hf.get(id);
    if (found === null) throw new Error(`there is no job ${id}`);
    return found;
  };
  return { hf, clock, store, lines, another, job };
}

/** Clients that share a store must not close it under each other. */
function shared(store: Store): Store {
  return new Proxy(store, {
    get: (target, property) =>
      property === "close" ? () => Promise.resolve() : (Reflect.get(target, property) as unknown),
  });
}

/** A folder that is deleted after the test. */
export async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "holdfast-engine-"));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return path;
}

/** A client on a database file with the real clock; closed after the test. */
export async function onFile(options: SceneOptions = {}, file?: string): Promise<{ hf: Holdfast; file: string }> {
  const path = file ?? join(await folder(), "jobs.db");
  const hf = await holdfast({ ...options, store: `sqlite:${path}`, logger: false });
  onTestFinished(() => hf.close());
  return { hf, file: path };
}

/** Closes a client whose error reporter never ends: the time that it gets for that passes at once. */
export async function closeDespiteReporter(hf: Holdfast): Promise<void> {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const closed = hf.close();
  while (vi.getTimerCount() === 0) await new Promise((resolve) => setImmediate(resolve));
  vi.advanceTimersByTime(DEFAULTS.flushMs);
  await closed;
}

export interface Deferred<Value> {
  readonly promise: Promise<Value>;
  readonly resolve: (value: Value) => void;
  readonly reject: (error: unknown) => void;
}

export function deferred<Value = void>(): Deferred<Value> {
  let resolve!: (value: Value) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<Value>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

/** All events of this name, in order. */
export function eventsOf<Name extends EventName>(hf: Holdfast, name: Name): Events[Name][] {
  const received: Events[Name][] = [];
  hf.on(name, (event) => void received.push(event));
  return received;
}

/** The next event of this name. */
export function next<Name extends EventName>(hf: Holdfast, name: Name): Promise<Events[Name]> {
  return new Promise((resolve) => {
    const off = hf.on(name, (event) => {
      off();
      resolve(event);
    });
  });
}

/** Waits for a signal to be aborted, and throws its reason as `fetch` and most libraries do. */
export function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const stop = (): void => reject(signal.reason as Error);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}
