import {
  CursorExpiredError,
  job,
  StoreUnavailableError,
  type Holdfast,
  type FollowOptions,
  type Transition,
} from "holdfast";
import { describe, expect, it } from "vitest";
import { engineOf } from "#src/engine/client/holdfast.js";
import { follow } from "#src/engine/events/follow.js";
import { readTransitions } from "#src/engine/events/read-transitions.js";
import { errorOf } from "../client/scene.js";
import { scene } from "./scene.js";

const ok = job({ type: "ok", run: () => {} });
const bad = job({
  type: "bad",
  queue: "slow",
  retry: { maxAttempts: 1 },
  run: () => {
    throw new Error("bad");
  },
});

/** Collects transitions until `stop` is called. */
function collect(hf: Holdfast, options: FollowOptions = {}): { seen: Transition[]; stop: () => Promise<void> } {
  const seen: Transition[] = [];
  const followed = hf.follow(options);
  const reading = (async () => {
    for await (const transition of followed) seen.push(transition);
  })();
  return {
    seen,
    stop: async () => {
      await followed.return();
      await reading;
    },
  };
}
const states = (seen: readonly Transition[], id: string): string[] =>
  seen.filter((each) => each.id === id).map(({ to }) => to);

describe("follow", () => {
  it("yields the transitions of every process, in order", async () => {
    const { hf, clock, another } = await scene({ jobs: [ok, bad] });
    const second = await another({ jobs: [ok, bad] });
    const before = await hf.enqueue(ok, {}, { delay: "1m" });
    const { seen, stop } = collect(hf);
    await clock.advance("1s");
    const { id } = await second.enqueue(ok);
    const dead = await hf.enqueue(bad);
    await second.drain();
    await clock.advance("1s");
    expect(states(seen, id)).toEqual(["pending", "claimed", "completed"]);
    expect(states(seen, dead.id)).toEqual(["pending", "claimed", "dead"]);
    await clock.advance("1m");
    await second.drain();
    await clock.advance("1s");
    expect(states(seen, before.id)).toEqual(["claimed", "completed"]);
    await stop();
  });

  it("filters by type, queue and state", async () => {
    const { hf, clock } = await scene({ jobs: [ok, bad] });
    const dead = collect(hf, { states: ["dead", "completed"], queues: ["slow"] });
    const oks = collect(hf, { types: ["ok"] });
    await clock.advance("1s");
    await hf.enqueue(ok);
    await hf.enqueue(bad);
    await hf.drain();
    await clock.advance("1s");
    expect(dead.seen.map(({ type, to }) => [type, to])).toEqual([["bad", "dead"]]);
    expect(oks.seen.map(({ to }) => to)).toEqual(["pending", "claimed", "completed"]);
    await Promise.all([dead.stop(), oks.stop()]);
  });

  it("continues after a cursor and misses nothing", async () => {
    const { hf, clock } = await scene({ jobs: [ok] });
    const first = collect(hf);
    await clock.advance("1s");
    const { id } = await hf.enqueue(ok);
    await clock.advance("1s");
    await first.stop();
    const cursor = first.seen.at(-1)?.cursor ?? "";
    await hf.drain();
    const second = collect(hf, { cursor });
    await clock.advance("1s");
    expect(states(second.seen, id)).toEqual(["claimed", "completed"]);
    await second.stop();
  });

  it("records nothing without a follower", async () => {
    const { hf, clock } = await scene({ jobs: [ok] });
    const { seen, stop } = collect(hf);
    await clock.advance("1s");
    await hf.enqueue(ok);
    await clock.advance("1s");
    const cursor = seen.at(-1)?.cursor ?? "";
    await stop();
    await clock.advance("11m");
    await hf.drain();
    const again = collect(hf);
    await clock.advance("1s");
    expect(again.seen).toEqual([]);
    expect(await errorOf(hf.follow({ cursor }).next())).toBeInstanceOf(CursorExpiredError);
    await again.stop();
  });

  it("continues after 10 minutes without a follower, and after each further 10", async () => {
    const { hf, clock, another } = await scene({ jobs: [ok] });
    const first = collect(hf);
    await clock.advance("19s");
    await hf.enqueue(ok);
    await clock.advance("500ms");
    await first.stop();
    let cursor = first.seen.at(-1)?.cursor ?? "";
    for (let restart = 0; restart < 3; restart++) {
      await clock.advance("570s");
      const { id } = await hf.enqueue(ok);
      await clock.advance("29s");
      const resumed = collect(await another({ jobs: [ok] }), { cursor });
      await clock.advance("1s");
      expect(states(resumed.seen, id)).toEqual(["pending"]);
      await resumed.stop();
      cursor = resumed.seen.at(-1)?.cursor ?? "";
    }
  });

  it("keeps recording while there is a follower", async () => {
    const { hf, clock, another } = await scene({ jobs: [ok] });
    const second = await another({ jobs: [ok] });
    const { seen, stop } = collect(hf);
    await clock.advance("3m");
    await second.enqueue(ok);
    await clock.advance("1s");
    expect(seen.map(({ to }) => to)).toEqual(["pending"]);
    await stop();
  });

  it("reads the store once for 500 followers", async () => {
    const { hf, clock, store } = await scene({ jobs: [ok] });
    const followers = Array.from({ length: 500 }, () => collect(hf));
    await clock.advance("2s");
    store.forget();
    await clock.advance("10s");
    const reads = store.count("transitions");
    expect(reads).toBeLessThanOrEqual(50);
    expect(store.count("recordTransitions")).toBeLessThanOrEqual(1);
    await hf.enqueue(ok);
    await clock.advance("1s");
    expect(followers.every(({ seen }) => seen.length === 1)).toBe(true);
    expect(await errorOf(hf.follow().next())).toMatchObject({ code: "TOO_MANY_FOLLOWERS" });
    await Promise.all(followers.map(({ stop }) => stop()));
  });

  it("a follower that stops reading holds up nothing", async () => {
    const { hf, clock, store } = await scene({ jobs: [ok] });
    const idle = hf.follow();
    const started = idle.next();
    await clock.advance("1s");
    await hf.enqueue(ok);
    await clock.advance("1s");
    await started;
    await hf.enqueueMany(
      ok,
      Array.from({ length: 2_000 }, () => ({})),
    );
    await hf.drain();
    store.forget();
    await clock.advance("10s");
    expect(store.count("transitions")).toBe(0);
    await idle.return();
  });

  it("ends when its signal aborts and when the client closes", async () => {
    const { hf, clock, another } = await scene({ jobs: [ok] });
    const controller = new AbortController();
    const aborted = hf.follow({ signal: controller.signal }).next();
    await clock.advance("1s");
    controller.abort();
    expect(await aborted).toEqual({ done: true, value: undefined });
    const second = await another();
    const closed = second.follow().next();
    await clock.advance("1s");
    await second.close();
    await clock.advance("1s");
    expect(await closed).toEqual({ done: true, value: undefined });
  });

  it("ends when the client closes during an outage", async () => {
    const { clock, store, another } = await scene();
    const second = await another();
    const followed = second.follow().next();
    await clock.advance("1s");
    const end = store.fail(new StoreUnavailableError("down"), "transitions");
    await clock.advance("2s");
    await second.close();
    await clock.advance("10s");
    expect(await followed).toEqual({ done: true, value: undefined });
    end();
  });

  it("followers at different cursors read one after another", async () => {
    const { hf, clock, store } = await scene({ jobs: [ok] });
    const { seen, stop } = collect(hf);
    await clock.advance("1s");
    for (let n = 0; n < 20; n++) {
      await hf.enqueue(ok);
      await clock.advance("1s");
    }
    await stop();
    const release = store.hold("transitions");
    store.forget();
    const behind = seen.map(({ cursor }) => collect(hf, { cursor }));
    await clock.advance("1s");
    expect(store.count("transitions")).toBe(3);
    release();
    await clock.advance("5s");
    expect(behind.slice(0, -1).every((each) => each.seen.at(-1)?.id === seen.at(-1)?.id)).toBe(true);
    await Promise.all(behind.map((each) => each.stop()));
  });

  it("followers that come and go leave no reads behind", async () => {
    const { hf, clock, store } = await scene({ jobs: [ok] });
    let followed = collect(hf);
    await clock.advance("1s");
    for (let n = 0; n < 30; n++) {
      await followed.stop();
      followed = collect(hf);
      await clock.advance(100);
    }
    store.forget();
    await clock.advance("10s");
    expect(store.count("transitions")).toBeLessThanOrEqual(50);
    await followed.stop();
  });

  it("the transitions that are not kept are deleted every minute", async () => {
    const { hf, clock, store } = await scene({ jobs: [ok] });
    hf.work();
    store.forget();
    await clock.advance("10m");
    expect(store.count("purgeTransitions")).toBeGreaterThanOrEqual(8);
    expect(store.count("purgeHistory")).toBeLessThanOrEqual(6);
  });

  it("survives an outage of the store", async () => {
    const { hf, clock, store, another } = await scene({ jobs: [ok] });
    const second = await another();
    const outages: string[] = [];
    hf.on("outage", ({ doing }) => outages.push(`begin ${doing}`));
    hf.on("outageEnded", ({ doing }) => outages.push(`end ${doing}`));
    const { seen, stop } = collect(hf);
    await clock.advance("1s");
    const end = store.fail(new StoreUnavailableError("down"), "transitions", "recordTransitions");
    await clock.advance("50s");
    end();
    await second.enqueue(ok);
    await clock.advance("30s");
    expect(seen.map(({ to }) => to)).toEqual(["pending"]);
    expect(outages).toEqual(["begin follow", "end follow"]);
    await stop();
  });

  it("reports no outage after its client has closed", async () => {
    const { clock, lines, store, another } = await scene({ jobs: [ok] });
    const second = await another({ jobs: [ok] });
    const outages: unknown[] = [];
    second.on("outage", (outage) => outages.push(outage));
    // It reads one transition and never the next.
    const stopped = second.follow();
    const first = stopped.next();
    await clock.advance("1s");
    await second.enqueue(ok);
    await clock.advance("1s");
    expect((await first).value?.to).toBe("pending");
    const closing = second.close();
    await clock.advance("1s");
    await closing;
    store.forget();
    store.fail(new StoreUnavailableError("closed"), "recordTransitions");
    await clock.advance("2m");
    expect([outages, store.count("recordTransitions")]).toEqual([[], 0]);
    expect(lines.filter(({ level }) => level === "warn")).toEqual([]);
  });

  it("a read whose recording failed prolongs it at the next read", async () => {
    const { hf, clock, store } = await scene({ jobs: [ok] });
    const engine = engineOf(hf);
    const { cursor } = await readTransitions(engine, {});
    await clock.advance("30s");
    const end = store.fail(new StoreUnavailableError("down"), "recordTransitions");
    expect(await errorOf(readTransitions(engine, { cursor }))).toBeInstanceOf(StoreUnavailableError);
    end();
    store.forget();
    await readTransitions(engine, { cursor });
    await readTransitions(engine, { cursor });
    expect(store.count("recordTransitions")).toBe(1);
  });

  it("rejects invalid options where it is called", async () => {
    const { hf } = await scene();
    for (const options of [
      { type: ["ok"] },
      { types: [] },
      { types: "ok" },
      { states: ["done"] },
      { queues: ["*"] },
      { cursor: "x".repeat(5_000) },
      { signal: 1 },
    ]) {
      expect(() => hf.follow(options as unknown as FollowOptions)).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION" }) as Error,
      );
    }
    expect(await errorOf(hf.follow({ cursor: "abc" }).next())).toMatchObject({ code: "INVALID_OPTION" });
    const { cursor } = await hf.list({ limit: 1 });
    expect(cursor).toBeNull();
  });
});

describe("calm followers", () => {
  const readsIn = async (paces: readonly boolean[], isBusy = false): Promise<number> => {
    const { hf, clock } = await scene({ jobs: [ok] });
    const engine = engineOf(hf);
    const stops = paces.map((isCalm) => {
      const followed = follow(engine, {}, { isCalm });
      void (async () => {
        while ((await followed.next()).done === false);
      })();
      return followed;
    });
    await clock.advance("3s");
    const { store } = engine;
    const before = store.transitions.bind(store);
    let reads = 0;
    store.transitions = (...given) => (reads++, before(...given));
    for (let tenth = 0; tenth < 100; tenth++) {
      if (isBusy) await hf.enqueue(ok, {}, { delay: "1h" });
      await clock.advance("100ms");
    }
    await Promise.all(stops.map((followed) => followed.return()));
    return reads;
  };

  it("cost a read per second", async () => {
    expect(await readsIn([true, true])).toBeLessThanOrEqual(10);
    expect(await readsIn([true])).toBeGreaterThanOrEqual(8);
  });

  it("cost a read every two seconds while jobs change", async () => {
    const reads = await readsIn([true], true);
    expect(reads).toBeGreaterThanOrEqual(4);
    expect(reads).toBeLessThanOrEqual(6);
  });

  it("read as often as others of their client", async () => {
    expect(await readsIn([true, false])).toBeGreaterThanOrEqual(30);
  });

  it("do not listen for hints of the store", async () => {
    const { hf, clock } = await scene({ jobs: [ok] });
    const engine = engineOf(hf);
    const listen = engine.store.listen.bind(engine.store);
    let listeners = 0;
    engine.store.listen = (listener) => {
      const stopListening = listen(listener);
      listeners++;
      return () => {
        listeners--;
        stopListening();
      };
    };
    const calm = follow(engine, {}, { isCalm: true });
    const first = calm.next();
    await clock.advance("10ms");
    expect(listeners).toBe(0);
    const { stop } = collect(hf);
    await clock.advance("10ms");
    expect(listeners).toBe(1);
    await stop();
    expect(listeners).toBe(0);
    await Promise.all([calm.return(), first]);
  });

  it("do not delay a follower that joins", async () => {
    const { hf, clock } = await scene({ jobs: [ok] });
    const calm = follow(engineOf(hf), {}, { isCalm: true });
    const first = calm.next();
    await clock.advance("1500ms");
    const { seen, stop } = collect(hf);
    await clock.advance("10ms");
    await hf.enqueue(ok);
    await clock.advance("300ms");
    expect(seen.map(({ to }) => to)).toEqual(["pending"]);
    expect((await first).value?.to).toBe("pending");
    await Promise.all([stop(), calm.return()]);
  });
});
