import { setImmediate } from "node:timers/promises";
import { job } from "holdfast";
import { Counts } from "#src/history/counted.js";
import { describe, expect, it } from "vitest";
import { errorOf } from "../client/scene.js";
import { scene, watch } from "./scene.js";

const ok = job({ type: "ok", queue: "fast", run: () => {} });
const bad = job({
  type: "bad",
  queue: "slow",
  retry: { maxAttempts: 2, backoff: () => 0 },
  run: () => {
    throw new Error("bad");
  },
});

describe("history", () => {
  it("counts jobs by minute, from all processes", async () => {
    const { hf, clock, another } = await scene({ jobs: [ok, bad] });
    const second = await another({ jobs: [ok, bad] });
    await hf.enqueueMany(ok, [{}, {}]);
    await second.enqueue(bad);
    const { id } = await second.enqueue(ok, {}, { delay: "1h" });
    await hf.drain();
    await second.cancel(id);
    await clock.advance("2m");
    const { series, resolution } = await hf.history();
    const [all] = series;
    expect({ resolution, series: series.length, name: all?.name, points: all?.points.length }).toEqual({
      resolution: "minute",
      series: 1,
      name: null,
      points: 60,
    });
    expect(all?.points.filter(({ enqueued }) => enqueued > 0)).toMatchObject([
      { at: new Date("2026-01-01T00:00:00Z"), enqueued: 4, completed: 2, failed: 2, dead: 1, cancelled: 1 },
    ]);
  });

  it("has a series for each queue or type", async () => {
    const { hf, clock } = await scene({ jobs: [ok, bad] });
    await hf.enqueueMany(ok, [{}, {}]);
    await hf.enqueue(bad);
    await hf.drain();
    await clock.advance("2m");
    const totals = async (options: object): Promise<unknown> =>
      (await hf.history(options)).series.map(({ name, points }) => [
        name,
        points.reduce((sum, { enqueued }) => sum + enqueued, 0),
      ]);
    expect(await totals({ by: "queue" })).toEqual([
      ["fast", 2],
      ["slow", 1],
    ]);
    expect(await totals({ by: "type", queue: "slow" })).toEqual([["bad", 1]]);
    expect(await totals({ type: "ok" })).toEqual([[null, 2]]);
  });

  it("counts an expired lease as a failed attempt", async () => {
    const { hf, clock } = await scene({ jobs: [ok] });
    await hf.enqueue(ok, {}, { maxAttempts: 2 });
    const failed = async (): Promise<[number, number]> => {
      const points = (await hf.history()).series[0]?.points ?? [];
      return [points.reduce((sum, each) => sum + each.failed, 0), points.reduce((sum, each) => sum + each.dead, 0)];
    };
    for (const lease of await hf.claim({ lease: "10s" })) await lease.start();
    await clock.advance("11s");
    for (const lease of await hf.claim({ lease: "10s" })) await lease.start();
    await clock.advance("2m");
    expect(await failed()).toEqual([1, 0]);
    await hf.reapExpiredLeases();
    await clock.advance("2m");
    expect(await failed()).toEqual([2, 1]);
  });

  it("has percentiles of wait and run times", async () => {
    const slow = job({ type: "slow", run: () => {} });
    const { hf, clock } = await scene({ jobs: [slow] });
    await hf.enqueueMany(
      slow,
      Array.from({ length: 10 }, () => ({})),
    );
    await clock.advance("10s");
    await hf.drain();
    await clock.advance("2m");
    const point = (await hf.history()).series[0]?.points.find(({ wait }) => wait !== null);
    expect(point?.wait?.p50).toBeGreaterThan(8_000);
    expect(point?.wait?.p99).toBeLessThan(12_000);
    expect(point?.run?.p50).toBeLessThanOrEqual(1);
  });

  it("samples how many jobs wait, and for how long", async () => {
    const { hf, clock } = await scene({ jobs: [ok] });
    await hf.enqueueMany(ok, [{}, {}, {}]);
    await clock.advance("30s");
    await hf.maintain();
    const newest = (await hf.history({ by: "queue" })).series[0]?.points.at(-1);
    expect(newest).toMatchObject({ waiting: 3, leased: 0, oldestDueMs: 30_000 });
  });

  it("adds minutes up to hours, and deletes old ones", async () => {
    const { hf, clock, store } = await scene({ jobs: [ok] });
    for (let hour = 0; hour < 3; hour++) {
      await hf.enqueueMany(ok, [{}, {}]);
      await hf.drain();
      await clock.advance("1h");
      await hf.maintain();
    }
    await clock.advance("26h");
    await hf.maintain();
    const { series, resolution } = await hf.history({ from: clock.now() - 30 * 3_600_000 });
    expect(resolution).toBe("hour");
    expect(series[0]?.points.filter(({ completed }) => completed > 0).map(({ completed }) => completed)).toEqual([
      2, 2, 2,
    ]);
    const whole = { from: 0, to: clock.now(), limit: 1_000, after: null };
    const { records: minutes } = await store.store.history({ resolution: "minute", ...whole });
    expect(minutes.every(({ at }) => at >= clock.now() - 25 * 3_600_000)).toBe(true);
    await clock.advance("31d");
    await hf.maintain();
    expect((await store.store.history({ resolution: "hour", ...whole })).records).toEqual([]);
  });

  it("has the hours of the last day while no process runs maintenance", async () => {
    const { hf, clock } = await scene({ jobs: [ok] });
    for (let hour = 0; hour < 20; hour++) {
      // Hours without jobs are between them.
      if (hour % 3 < 2) await hf.enqueueMany(ok, [{}, {}]);
      await clock.advance("1h");
    }
    const hours = async (): Promise<(number | undefined)[]> => {
      const { series } = await hf.history({ from: clock.now() - 48 * 3_600_000 });
      return series[0]?.points.filter(({ enqueued }) => enqueued > 0).map(({ enqueued }) => enqueued) ?? [];
    };
    expect(await hours()).toEqual(Array.from({ length: 14 }, () => 2));
    await hf.maintain();
    expect(await hours()).toEqual(Array.from({ length: 14 }, () => 2));
    await clock.advance("1h");
    expect(await hours()).toEqual(Array.from({ length: 14 }, () => 2));
  });

  it("includes minutes that are written late in their hour", async () => {
    const { hf, clock, store, another } = await scene({ jobs: [ok] });
    const way = watch(store.store);
    const other = await another({ jobs: [ok] }, way.store);
    await clock.advance("59m");
    await hf.enqueue(ok);
    const end = way.fail(new Error("down"), "putHistory");
    await other.enqueueMany(ok, [{}, {}]);
    for (let minute = 0; minute < 40; minute += 5) {
      await clock.advance("5m");
      await hf.maintain();
    }
    const enqueued = async (): Promise<number | undefined> =>
      (await hf.history({ from: clock.now() - 48 * 3_600_000 })).series[0]?.points.reduce(
        (n, each) => n + each.enqueued,
        0,
      );
    expect(await enqueued()).toBe(1);
    end();
    await clock.advance("1h");
    await hf.maintain();
    expect(await enqueued()).toBe(3);
  });

  it("merges the records of processes, and loses no count", async () => {
    const { hf, clock, store, another } = await scene({ jobs: [ok] });
    const others = await Promise.all(Array.from({ length: 5 }, () => another({ jobs: [ok] })));
    for (const each of others) await each.enqueue(ok);
    await clock.advance("5m");
    await hf.maintain();
    const range = { resolution: "minute", from: 0, to: clock.now() - 240_000, limit: 100, after: null } as const;
    expect((await store.store.history(range)).records).toHaveLength(1);
    await hf.maintain();
    const points = (await hf.history()).series[0]?.points ?? [];
    expect(points.reduce((sum, { enqueued }) => sum + enqueued, 0)).toBe(5);
  });

  it("costs one write a minute, and none for idle processes", async () => {
    const { hf, clock, store } = await scene({ jobs: [ok] });
    await clock.advance("10m");
    expect(store.count("putHistory")).toBe(0);
    for (let n = 0; n < 50; n++) await hf.enqueue(ok);
    await hf.drain();
    await clock.advance("10m");
    expect(store.count("putHistory")).toBe(1);
  });

  it("is kept during an outage and written later", async () => {
    const { hf, clock, store } = await scene({ jobs: [ok] });
    const end = store.fail(new Error("down"), "putHistory");
    await hf.enqueue(ok);
    await clock.advance("3m");
    end();
    await clock.advance("2m");
    const points = (await hf.history()).series[0]?.points ?? [];
    expect(points.reduce((sum, { enqueued }) => sum + enqueued, 0)).toBe(1);
  });

  it("is written when the client closes", async () => {
    const { hf, another } = await scene({ jobs: [ok] });
    const second = await another();
    await second.enqueue(ok);
    await second.close();
    expect((await hf.history()).series[0]?.points.at(-1)).toMatchObject({ enqueued: 1 });
  });

  it("is added up without holding up the process", async () => {
    const { hf, clock, store } = await scene();
    const counts = new Counts();
    for (let n = 0; n < 300; n++) {
      const counted = counts.of(`queue${n}`, `type${n}`);
      for (let power = 0; power < 8; power++) counted.wait.add(2 ** power);
    }
    const data = counts.toText();
    const now = clock.now();
    const minutes = Array.from({ length: 400 }, (_, n) => ({ at: now - n * 60_000, writer: "a", data }));
    await store.store.putHistory(minutes.map((minute) => ({ ...minute, resolution: "minute" })));
    let between = 0;
    let isDone = false;
    const turns = (async () => {
      for (; !isDone; between++) await setImmediate();
    })();
    const { series } = await hf.history({ from: now - 400 * 60_000 });
    isDone = true;
    await turns;
    // Other work of the process runs about every 10 ms; without that, only between two pages of records.
    expect(between).toBeGreaterThan(2);
    expect(series[0]?.points.filter(({ wait }) => wait !== null)).toHaveLength(400);
  });

  it("rejects ranges and options that are invalid", async () => {
    const { hf, clock } = await scene();
    for (const options of [
      { from: clock.now() - 5 * 365 * 86_400_000 },
      { from: clock.now() + 1_000 },
      { from: clock.now(), to: clock.now() - 1_000 },
      { from: clock.now() - 2 * 86_400_000, resolution: "minute" },
      { resolution: "second" },
      { by: "user" },
      { from: "yesterday" },
      { form: 1 },
    ]) {
      expect(await errorOf(hf.history(options as object))).toMatchObject({ code: "INVALID_OPTION" });
    }
  });
});
