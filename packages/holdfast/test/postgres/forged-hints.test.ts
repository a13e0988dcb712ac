import { job } from "holdfast";
import type { Hint } from "holdfast/store";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { HintFilter } from "#src/stores/postgres/notify/hint-filter.js";
import { newId } from "#src/job/id.js";
import { until } from "#src/testing/exercise-store/until.js";
import { deferred, watch, type WatchedStore } from "../engine/scene.js";
import { login, newRole } from "./roles.js";
import { openClient, openScene, type RunSql } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const FLOOD = 50_000;
// What workers and maintenance ask for by themselves while the flood lasts.
const OWN_CALLS = 10;

interface Flooded {
  watched: WatchedStore;
  /** The job that runs. */
  id: string;
  signal: AbortSignal;
  /** Has a login without any rights send so many notifications, and returns once the store has heard all of them. */
  flood: (payload: string, count?: number) => Promise<void>;
}

/** A worker that runs one job, and somebody else on the same server. */
async function flooded(): Promise<Flooded> {
  const scene = await openScene(server);
  const mallory = await login(server, scene, await newRole(server, "mallory"));
  const watched = watch(scene.store);
  const begun = deferred<AbortSignal>();
  const released = deferred<void>();
  const waits = job({
    type: "waits",
    async run({ signal }) {
      begun.resolve(signal);
      await Promise.race([released.promise, new Promise((resolve) => signal.addEventListener("abort", resolve))]);
      signal.throwIfAborted();
    },
  });
  const hf = await openClient(watched.store, waits);
  onTestFinished(() => released.resolve());
  const { id } = await hf.enqueue(waits);
  hf.work({ poll: "1m" });
  const signal = await begun.promise;
  let marks = 0;
  const unlisten = scene.store.listen(({ kind }) => void (kind === "schedules" && marks++));
  onTestFinished(unlisten);
  const mark = async (sql: RunSql): Promise<void> => {
    const before = marks;
    await until("the mark to be heard", async () => {
      await sql("SELECT pg_notify('holdfast_$s', 'mallory schedules')");
      return marks > before;
    });
  };
  await mark(mallory.sql);
  return {
    watched,
    id,
    signal,
    async flood(payload, count = FLOOD) {
      watched.forget();
      // Of the same in one transaction PostgreSQL sends one.
      await mallory.sql(
        `SELECT pg_notify('holdfast_$s', 'mallory' || n || ${payload}) FROM generate_series(1, ${count}) AS n`,
      );
      await mark(mallory.sql);
    },
  };
}

describe("hints that anybody may forge", () => {
  it("to stop a running job cost a few looks, and stop nothing", async () => {
    const { watched, id, signal, flood } = await flooded();
    await flood(`' cancel ${id}'`);
    expect(watched.count("extend")).toBeLessThan(OWN_CALLS);
    expect(signal.aborted).toBe(false);
  });

  it("do not keep a job from being cancelled", { timeout: 30_000 }, async () => {
    const { watched, id, signal, flood } = await flooded();
    await flood(`' cancel ${id}'`, 1_000);
    expect(await watched.store.cancel([id])).toEqual(["requested"]);
    await until("the job to stop", () => signal.aborted);
  });

  it("to stop jobs that do not run here cost no look", async () => {
    const { watched, flood } = await flooded();
    await flood("' cancel ' || gen_random_uuid() || ',' || gen_random_uuid()");
    expect(watched.count("extend")).toBe(0);
  });

  it.each(["work", "finished", "schedules"])("of %s cost few looks, however many they are", async (kind) => {
    const { watched, flood } = await flooded();
    const began = performance.now();
    await flood(`' ${kind}'`);
    // One of a kind in ten milliseconds, at most.
    expect(watched.total()).toBeLessThan(OWN_CALLS + (performance.now() - began) / 10);
  });

  it("that say nothing are dropped", async () => {
    const { watched, flood } = await flooded();
    await flood("repeat(' cancel', 1000)", 1_000);
    await flood("' ' || repeat('x,', 3900)", 1_000);
    expect(watched.total()).toBeLessThan(OWN_CALLS);
  });
});

describe("what notifications say", () => {
  /** What becomes of payloads that come all at once: at once, and when the pause is over. */
  function handedOn(payloads: Iterable<string>): { first: Hint[]; later: Hint[] } {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const hints: Hint[] = [];
    const heard = new HintFilter("us", (some) => hints.push(...some));
    for (const payload of payloads) heard.receive(payload);
    const first = hints.splice(0);
    vi.runAllTimers();
    heard.stop();
    return { first, later: hints };
  }
  const many = (payload: () => string): string[] => Array.from({ length: FLOOD }, payload);

  it.each(["work", "finished", "schedules"])("of %s is handed on at once, and once more", (kind) => {
    const hint = kind === "work" ? { kind, inMs: 0 } : { kind };
    expect(handedOn([`them ${kind}`])).toEqual({ first: [hint], later: [] });
    expect(handedOn(many(() => `them ${kind}`))).toEqual({ first: [hint], later: [hint] });
  });

  it("of jobs to stop is handed on together, and no more than a thousand", () => {
    const { first, later } = handedOn(many(() => `them cancel ${newId(Date.now())},${newId(Date.now())}`));
    expect(first).toMatchObject([{ kind: "cancel", ids: { length: 2 } }]);
    expect(later).toMatchObject([{ kind: "cancel", ids: { length: 1_000 } }]);
  });

  it("that is our own, or of no kind, or names no job, is dropped", () => {
    const id = newId(Date.now());
    const dropped = [
      "us work",
      `us cancel ${id}`,
      "",
      " ",
      "work",
      "them",
      "them no",
      "them cancel",
      "them cancel x,y",
    ];
    expect(handedOn([...dropped, `them cancel ,${"x".repeat(8_000)}`])).toEqual({ first: [], later: [] });
    expect(handedOn([`them cancel x,${id},`])).toEqual({ first: [{ kind: "cancel", ids: [id] }], later: [] });
  });
});
