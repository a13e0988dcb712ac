import fc from "fast-check";
import { job, Metrics, NotRetryable } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { Counters, escapeLabel, exposition, Histograms } from "#src/observe/exposition.js";
import { onFile, scene } from "../engine/scene.js";
import { readMetrics, type ReadFamily } from "./prometheus.js";

/** Values by their labels, without zeros. */
function values(family: ReadFamily | undefined, suffix = ""): Record<string, number> {
  const samples = family?.samples.filter(({ name, value }) => name === `${family.name}${suffix}` && value !== 0) ?? [];
  return Object.fromEntries(samples.map(({ labels, value }) => [Object.values(labels).join(" "), value]));
}

const ok = job({ type: "ok", input: z.object({ n: z.number() }), run: () => {} });
const bad = job({ type: "bad", retry: { maxAttempts: 2 }, run: () => Promise.reject(new Error("no")) });
const gone = job({ type: "gone", queue: "other", run: () => Promise.reject(new NotRetryable("no")) });

describe("metrics", () => {
  it("B-18 have counters and gauges in Prometheus' format", async () => {
    const { hf, clock } = await scene({ jobs: [ok, bad, gone] });
    const metrics = new Metrics(hf);
    await hf.enqueueMany(ok, [{ n: 1 }, { n: 2 }, { n: 3 }]);
    await hf.enqueue(bad, {});
    await hf.enqueue(gone, {});
    const { id } = await hf.enqueue(ok, { n: 4 }, { queue: "later", delay: "1h" });
    await hf.cancel(id);
    await clock.advance("3s");
    await hf.drain();
    await hf.enqueue(ok, { n: 5 });
    await clock.advance("7s");
    const text = await metrics.text();
    const read = readMetrics(text);
    expect(Metrics.contentType).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(values(read.get("holdfast_enqueued_total"))).toEqual({
      "default ok": 4,
      "default bad": 1,
      "other gone": 1,
      "later ok": 1,
    });
    expect(values(read.get("holdfast_completed_total"))).toEqual({ "default ok": 3 });
    expect(values(read.get("holdfast_failed_total"))).toEqual({ "default bad": 1 });
    expect(values(read.get("holdfast_dead_total"))).toEqual({ "other gone": 1 });
    expect(values(read.get("holdfast_cancelled_total"))).toEqual({ "later ok": 1 });
    expect(values(read.get("holdfast_jobs"))).toEqual({
      "completed default ok": 3,
      "pending default ok": 1,
      "failed default bad": 1,
      "dead other gone": 1,
      "cancelled later ok": 1,
    });
    expect(values(read.get("holdfast_oldest_due_seconds"))).toEqual({ "": 7 });
    expect(values(read.get("holdfast_job_wait_seconds"), "_sum")).toEqual({ ok: 9, bad: 3, gone: 3 });
    expect(values(read.get("holdfast_job_wait_seconds"), "_count")).toEqual({ ok: 3, bad: 1, gone: 1 });
    expect(values(read.get("holdfast_job_wait_seconds"), "_bucket")).toMatchObject({ "ok 5": 3, "ok +Inf": 3 });
    expect(values(read.get("holdfast_job_wait_seconds"), "_bucket")).not.toHaveProperty("ok 2.5");
    expect(values(read.get("holdfast_job_duration_seconds"), "_bucket")).toMatchObject({
      "ok 0.005": 3,
      "gone +Inf": 1,
    });
    expect(values(read.get("holdfast_up"))).toEqual({ "": 1 });
    expect(read.get("holdfast_build_info")?.samples[0]?.labels).toEqual({
      version: expect.stringMatching(/^\d+\.\d+\.\d+/) as string,
      node: process.version,
    });
    expect([...read.values()].every(({ help, kind }) => help !== "" && kind !== "")).toBe(true);
  });

  it("count lost and recovered leases and all workers", async () => {
    const { hf, clock, store, another } = await scene({ jobs: [ok] });
    const metrics = new Metrics(hf);
    const other = await another();
    await hf.enqueue(ok, { n: 1 });
    await other.claim({ lease: "1s" });
    await clock.advance("2s");
    await hf.drain();
    const slow = job({
      type: "slow",
      run: ({ signal }) => new Promise((_, no) => signal.addEventListener("abort", no)),
    });
    const third = await another({ jobs: [slow] });
    const lost = new Metrics(third);
    await third.enqueue(slow, {});
    third.work({ concurrency: 1 });
    await clock.advance("15s");
    // Worker liveness uses the wall clock, because workers may be on other machines.
    expect(values(readMetrics(await metrics.text()).get("holdfast_recovered_total"))).toEqual({ "default ok": 1 });
    const letGo = store.fail(new Error("away"), "extend", "heartbeat");
    await clock.advance("40s");
    letGo();
    expect(values(readMetrics(await lost.text()).get("holdfast_lost_leases_total"))).toEqual({ "default slow": 1 });
  });

  it("count live workers and their running jobs", async () => {
    const slow = job({
      type: "slow",
      run: ({ signal }) => new Promise((_, no) => signal.addEventListener("abort", no)),
    });
    const { hf } = await onFile({ jobs: [slow] });
    const metrics = new Metrics(hf);
    hf.work({ grace: 0, lease: "300ms" });
    hf.work({ grace: 0, lease: "300ms" });
    await hf.enqueue(slow, {});
    await untilTrue(async () => (await hf.workers()).some(({ running }) => running === 1));
    const read = readMetrics(await metrics.text());
    expect(values(read.get("holdfast_workers"))).toEqual({ "": 2 });
    expect(values(read.get("holdfast_running"))).toEqual({ "": 1 });
  });

  it("query the store once per second, report an outage", async () => {
    const { hf, store } = await scene({ jobs: [ok] });
    const metrics = new Metrics(hf);
    await hf.enqueue(ok, { n: 1 });
    store.forget();
    await Promise.all([metrics.text(), metrics.text(), metrics.text()]);
    expect([store.count("stats"), store.count("workers")]).toEqual([1, 1]);
    store.fail(new Error("away"), "stats");
    const read = readMetrics(await new Metrics(hf).text());
    expect(values(read.get("holdfast_up"))).toEqual({});
    expect(read.has("holdfast_jobs")).toBe(false);
    expect(read.has("holdfast_completed_total")).toBe(true);
  });

  it("have a bounded number of lines", async () => {
    const { hf } = await scene();
    const metrics = new Metrics(hf);
    for (let n = 0; n < 250; n++) {
      await hf.enqueue(job({ type: `type ${n}`, queue: `queue ${n}`, run: () => {} }), {});
    }
    const read = readMetrics(await metrics.text());
    for (const name of ["holdfast_enqueued_total", "holdfast_jobs"]) {
      expect(read.get(name)?.samples).toHaveLength(201);
      const other = read.get(name)?.samples.filter(({ labels }) => labels["type"] === "other");
      expect(other).toMatchObject([{ labels: { queue: "other", type: "other" }, value: 50 }]);
    }
  });

  it("stop() ends counting", async () => {
    const { hf } = await scene({ jobs: [ok] });
    const metrics = new Metrics(hf);
    metrics.stop();
    metrics.stop();
    await hf.enqueue(ok, { n: 1 });
    expect(readMetrics(await metrics.text()).get("holdfast_enqueued_total")?.samples).toEqual([]);
  });
});

describe("for any string, the format", () => {
  it("preserves a label's value", () => {
    const tricky = fc.array(fc.constantFrom("\\", '"', "\n", "n", "{", "}", ",", "=", " ", "é", "\u2028", "x"));
    const text = fc.oneof(
      fc.string({ unit: "binary" }),
      tricky.map((parts) => parts.join("")),
    );
    fc.assert(
      fc.property(text, text, (first, second) => {
        const samples = [{ labels: { a: first, b: second }, value: 1 }];
        const written = exposition([{ name: "m", help: second, kind: "gauge", samples }]);
        const labels = readMetrics(written).get("m")?.samples[0]?.labels;
        expect(labels).toEqual({ a: first.toWellFormed(), b: second.toWellFormed() });
        expect(escapeLabel(first)).not.toMatch(/\n/);
      }),
      { numRuns: 1_000 },
    );
  });

  it("has cumulative buckets consistent with sum and count", () => {
    const numbers = fc.array(fc.double({ min: 0, max: 2_000, noNaN: true }));
    fc.assert(
      fc.property(numbers, (observed) => {
        const histograms = new Histograms([0.5, 1, 10, 1_000]);
        for (const value of observed) histograms.observe({ type: "t" }, value);
        const written = exposition([{ name: "m", help: "h", kind: "histogram", samples: histograms.samples() }]);
        const read = readMetrics(written).get("m");
        const upTo = (bound: number): number => observed.filter((value) => value <= bound).length;
        const expected = { "t 0.5": upTo(0.5), "t 1": upTo(1), "t 10": upTo(10), "t 1000": upTo(1_000) };
        expect(values(read, "_bucket")).toEqual(withoutZeros({ ...expected, "t +Inf": observed.length }));
      }),
    );
  });

  it("counts by labels", () => {
    const counters = new Counters();
    counters.add({ a: "1", b: "2" });
    counters.add({ a: "1,2", b: "" }, 2);
    counters.add({ a: "1", b: "2" }, 3);
    expect(counters.samples().map(({ value }) => value)).toEqual([4, 2]);
  });
});

function withoutZeros(counts: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count !== 0));
}

async function untilTrue(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setImmediate(resolve));
}
