import { job } from "holdfast";
import type { Hint } from "holdfast/store";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { HintFilter } from "#src/stores/postgres/notify/hint-filter.js";
import { newId } from "#src/job/uuid.js";
import { until } from "#src/testing/exercise-store/until.js";
import { deferred, watch, type WatchedStore } from "../engine/scene.js";
import { login, newRole } from "./roles.js";
import { openClient, openScene, type RunSql } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const FLOOD = 50_000;
// Queries that workers and maintenance make anyway during the flood.
const OWN_CALLS = 10;

interface Flooded {
  watched: WatchedStore;
  /** The job that runs. */
  id: string;
  signal: AbortSignal;
  /** Sends notifications from a login without privileges, and resolves when the store has received all of them. */
  flood: (payload: string, count?: number) => Promise<void>;
}

/** A worker that runs one job, and another login on the same server. */
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
    await until("the mark to be received", async () => {
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
      // PostgreSQL sends equal notifications of one transaction once.
      await mallory.sql(
        `SELECT pg_notify('holdfast_$s', 'mallory' || n || ${payload}) FROM generate_series(1, ${count}) AS n`,
      );
      await mark(mallory.sql);
    },
  };
}

describe("forged hints", () => {
  it("to cancel a running job cause few queries", async () => {
    const { watched, id, signal, flood } = await flooded();
    await flood(`' cancel ${id}'`);
    expect(watched.count("extend")).toBeLessThan(OWN_CALLS);
    expect(signal.aborted).toBe(false);
  });

  it("do not prevent a real cancellation", { timeout: 30_000 }, async () => {
    const { watched, id, signal, flood } = await flooded();
    await flood(`' cancel ${id}'`, 1_000);
    expect(await watched.store.cancel([id])).toEqual(["requested"]);
    await until("the job to stop", () => signal.aborted);
  });

  it("to cancel other jobs cause no queries", async () => {
    const { watched, flood } = await flooded();
    await flood("' cancel ' || gen_random_uuid() || ',' || gen_random_uuid()");
    expect(watched.count("extend")).toBe(0);
  });

  it.each(["work", "finished", "schedules"])("of kind %s cause few queries", async (kind) => {
    const { watched, flood } = await flooded();
    const began = performance.now();
    await flood(`' ${kind}'`);
    // At most one of a kind every ten milliseconds.
    expect(watched.total()).toBeLessThan(OWN_CALLS + (performance.now() - began) / 10);
  });

  it("with invalid payloads are dropped", async () => {
    const { watched, flood } = await flooded();
    await flood("repeat(' cancel', 1000)", 1_000);
    await flood("' ' || repeat('x,', 3900)", 1_000);
    expect(watched.total()).toBeLessThan(OWN_CALLS);
  });
});

describe("notifications", () => {
  /** The hints for payloads that arrive together: immediately, and after the pause. */
  function handedOn(payloads: Iterable<string>): { first: Hint[]; later: Hint[] } {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const hints: Hint[] = [];
    const received = new HintFilter("us", (some) => hints.push(...some));
    for (const payload of payloads) received.receive(payload);
    const first = hints.splice(0);
    vi.runAllTimers();
    received.stop();
    return { first, later: hints };
  }
  const many = (payload: () => string): string[] => Array.from({ length: FLOOD }, payload);

  it.each(["work", "finished", "schedules"])("of kind %s are forwarded once, and once after the pause", (kind) => {
    const hint = kind === "work" ? { kind, inMs: 0 } : { kind };
    expect(handedOn([`them ${kind}`])).toEqual({ first: [hint], later: [] });
    expect(handedOn(many(() => `them ${kind}`))).toEqual({ first: [hint], later: [hint] });
  });

  it("to cancel jobs are combined, up to 1,000 ids", () => {
    const { first, later } = handedOn(many(() => `them cancel ${newId(Date.now())},${newId(Date.now())}`));
    expect(first).toMatchObject([{ kind: "cancel", ids: { length: 2 } }]);
    expect(later).toMatchObject([{ kind: "cancel", ids: { length: 1_000 } }]);
  });

  it("of this process, of unknown kind or without ids are dropped", () => {
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
