import { describe, expect, it } from "vitest";
import { engineOf } from "#src/engine/client/holdfast.js";
import { adminScene, adminStores, mail, never } from "./scene.js";
import { checked, errorOf } from "./results.js";

describe.each(adminStores())("what happened, and why, on %s", (_name, store) => {
  it("jobs.explain has the reasons, the decisive one first", async () => {
    const { hf, as } = await adminScene(store());
    const viewer = await as("viewer");
    const { id } = await hf.enqueue(mail, { to: "ada" }, { delay: "1h", user: "ada" });
    const { text, reasons } = checked("jobs.explain", await viewer.jobs.explain({ id }));
    expect(reasons.map(({ kind }) => kind)).toEqual(["due-later", "no-worker"]);
    const [dueLater, noWorker] = reasons;
    expect(dueLater).toMatchObject({ text, until: (await hf.get(id))?.dueAt?.toISOString() });
    expect(dueLater?.change).toMatch(/promote/);
    expect(noWorker).toMatchObject({ until: null, text: "No worker is live." });
    await (await as("operator")).queues.pause({ queue: "default" });
    await hf.promote(id);
    const paused = checked("jobs.explain", await viewer.jobs.explain({ id }));
    expect(paused.reasons[0]).toMatchObject({ kind: "paused", queue: "default" });
    expect(paused.text).toContain("by token:operator");
  });

  it("jobs.explain is for users about their own jobs only", async () => {
    const { hf, as } = await adminScene(store());
    const { id } = await hf.enqueue(mail, { to: "ada" }, { user: "ada" });
    const ada = checked("jobs.explain", await (await as("user", "ada")).jobs.explain({ id }));
    expect(ada.reasons.length).toBeGreaterThan(0);
    const bob = await as("user", "bob");
    expect(await errorOf(bob.jobs.explain({ id }))).toMatchObject({ status: 404, code: "JOB_NOT_FOUND" });
    const missing = "018f4d2e-7b3a-7c11-8a55-0123456789ab";
    expect(await errorOf(bob.jobs.explain({ id: missing }))).toMatchObject({ status: 404, code: "JOB_NOT_FOUND" });
  });

  it("errors.list has groups, and their fingerprints find jobs", async () => {
    const { hf, as } = await adminScene(store());
    const viewer = await as("viewer");
    expect(checked("errors.list", await viewer.errors.list({})).groups).toEqual([]);
    await hf.enqueueMany(mail, [{ to: "invalid" }, { to: "invalid" }, { to: "ada" }]);
    await hf.drain();
    const { groups } = checked("errors.list", await viewer.errors.list({ trend: true }));
    expect(groups).toMatchObject([
      { type: "mail", name: "Error", message: "no such address", example: "no such address", count: 2 },
    ]);
    expect(groups[0]?.trend).toHaveLength(24);
    const fingerprint = groups[0]?.fingerprint ?? "";
    const { jobs } = await viewer.jobs.list({ fingerprint });
    expect(jobs.map(({ state, error }) => [state, error?.fingerprint])).toEqual([
      ["dead", fingerprint],
      ["dead", fingerprint],
    ]);
    expect(checked("errors.list", await viewer.errors.list({ type: "never" })).groups).toEqual([]);
    expect((await viewer.errors.list({})).groups[0]?.trend).toBeNull();
    const huge = await errorOf(viewer.jobs.list({ fingerprint: "f".repeat(1_000_000) }));
    expect(huge.status).toBeGreaterThanOrEqual(400);
    expect(huge.status).toBeLessThan(500);
  });

  it("history.get has points by minute and hour, and series", async () => {
    const { hf, as } = await adminScene(store());
    const viewer = await as("viewer");
    await hf.enqueueMany(mail, [{ to: "invalid" }, { to: "ada" }]);
    await hf.enqueue(never, {}, { queue: "other", delay: "1h" });
    await hf.drain();
    // Otherwise the counts of a minute are written after its end.
    await engineOf(hf).history.flush({ all: true });
    const minutes = checked("history.get", await viewer.history.get({}));
    const total = (points: readonly Record<"enqueued" | "failed", number>[], name: "enqueued" | "failed"): number =>
      points.reduce((sum, point) => sum + point[name], 0);
    expect([minutes.resolution, minutes.series.length, minutes.series[0]?.name]).toEqual(["minute", 1, null]);
    expect(total(minutes.series[0]?.points ?? [], "enqueued")).toBe(3);
    expect(total(minutes.series[0]?.points ?? [], "failed")).toBe(1);
    const from = new Date(Date.now() - 3 * 86_400_000).toISOString();
    const hours = checked("history.get", await viewer.history.get({ from, by: "queue" }));
    expect(hours.resolution).toBe("hour");
    expect(hours.series.map(({ name, points }) => [name, total(points, "enqueued")])).toEqual([
      ["default", 2],
      ["other", 1],
    ]);
    const ofType = await viewer.history.get({ type: "never" });
    expect(total(ofType.series[0]?.points ?? [], "enqueued")).toBe(1);
    for (const query of [{ from: "2001-01-01T00:00:00Z" }, { from: "soon" }, { by: "user" as "type" }]) {
      expect(await errorOf(viewer.history.get(query))).toMatchObject({ status: 400 });
    }
  });
});
