import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { errorOf } from "../client/scene.js";
import { scene } from "./scene.js";

let orders = 0;
const charge = job({
  type: "charge",
  retry: { maxAttempts: 2, backoff: () => 0 },
  run: () => {
    throw new RangeError(`order ${++orders} of customer cus_9sK${orders}x costs "${orders} EUR"`);
  },
});
const other = job({
  type: "other",
  retry: { maxAttempts: 1 },
  run: () => {
    throw Object.assign(new Error("refused"), { code: "E_REFUSED" });
  },
});

describe("error groups", () => {
  it("have one entry for errors that differ in numbers and ids", async () => {
    const { hf, clock } = await scene({ jobs: [charge, other] });
    const first = clock.now();
    await hf.enqueueMany(charge, [{}, {}, {}]);
    await hf.drain();
    await clock.advance("1m");
    const { id } = await hf.enqueue(other);
    await hf.drain();
    const [latest, earlier, ...more] = await hf.errorGroups();
    expect(more).toEqual([]);
    expect(latest).toMatchObject({
      type: "other",
      name: "Error",
      code: "E_REFUSED",
      message: "refused",
      count: 1,
      job: id,
      example: "refused",
    });
    expect(earlier).toMatchObject({
      type: "charge",
      name: "RangeError",
      message: "order <number> of customer <id> costs <text>",
      count: 6,
      firstAt: new Date(first),
      lastAt: new Date(first),
      example: expect.stringMatching(/^order \d+ of customer/) as string,
    });
    expect(earlier?.frame).toMatch(/error-groups\.test/);
    expect(await hf.errorGroups({ type: "charge" })).toEqual([earlier]);
    expect(await hf.errorGroups({ limit: 1 })).toEqual([latest]);
  });

  it("have a trend of the last 24 hours if asked", async () => {
    const { hf, clock } = await scene({ jobs: [charge, other] });
    await hf.enqueueMany(charge, [{}, {}, {}]);
    await hf.drain();
    await clock.advance("2h");
    await hf.enqueueMany(charge, [{}, {}]);
    await hf.drain();
    await clock.advance("1s");
    await hf.enqueue(other);
    await hf.drain();
    // The counts of a minute are written after its end.
    await clock.advance("2m");
    const none = Array.from({ length: 20 }, () => 0);
    expect((await hf.errorGroups({ trend: true })).map(({ type, trend }) => ({ type, trend }))).toEqual([
      { type: "other", trend: [...none, 0, 0, 0, 1] },
      { type: "charge", trend: [...none, 0, 6, 0, 4] },
    ]);
    expect((await hf.errorGroups()).map(({ trend }) => trend)).toEqual([null, null]);
    await clock.advance("22h");
    await hf.maintain();
    expect((await hf.errorGroups({ trend: true })).map(({ trend }) => trend?.slice(0, 3))).toEqual([
      [0, 1, 0],
      [0, 4, 0],
    ]);
    expect(await errorOf(hf.errorGroups({ trend: 1 as never }))).toMatchObject({
      code: "INVALID_OPTION",
      field: "trend",
    });
  });

  it("select jobs to list, count, retry, cancel and delete", async () => {
    const { hf } = await scene({ jobs: [charge, other] });
    await hf.enqueueMany(charge, [{}, {}, {}]);
    await hf.enqueue(other);
    await hf.drain();
    const [group] = await hf.errorGroups({ type: "charge" });
    const fingerprint = group?.fingerprint ?? "";
    const { jobs } = await hf.list({ fingerprint });
    expect(jobs.map(({ type, state, error }) => [type, state, error?.fingerprint])).toEqual(
      Array.from({ length: 3 }, () => ["charge", "dead", fingerprint]),
    );
    expect(await hf.count({ fingerprint, state: "dead" })).toEqual({ count: 3, exact: true });
    expect(await hf.retry({ fingerprint })).toBe(3);
    expect(await hf.count({ fingerprint })).toEqual({ count: 0, exact: true });
    await hf.drain();
    expect(await hf.count({ fingerprint })).toEqual({ count: 3, exact: true });
    expect(await hf.remove({ fingerprint })).toBe(3);
    expect((await hf.stats()).states.dead).toBe(1);
  });

  it("contain expired leases of all types", async () => {
    const { hf, clock } = await scene({ jobs: [charge] });
    const { id } = await hf.enqueue(other);
    await hf.claim({ limit: 1, lease: "10s" });
    await clock.advance("11s");
    await hf.reapExpiredLeases();
    const [group] = await hf.errorGroups();
    expect(group).toMatchObject({ type: null, code: "STALE_CLAIM", count: 1, job: id });
    expect(await hf.get(id)).toMatchObject({ error: { fingerprint: group?.fingerprint } });
  });

  it("are written once for many failures", async () => {
    const { hf, store, clock } = await scene({ jobs: [charge] });
    await hf.enqueueMany(
      charge,
      Array.from({ length: 300 }, () => ({})),
    );
    await hf.drain();
    await clock.advance("2s");
    expect(store.count("recordErrors")).toBeLessThanOrEqual(3);
    expect(await hf.errorGroups()).toMatchObject([{ count: 600 }]);
  });

  it("survive an outage of the store", async () => {
    const { hf, store, clock } = await scene({ jobs: [other] });
    const outages: string[] = [];
    hf.on("outage", ({ doing }) => outages.push(`begin ${doing}`));
    hf.on("outageEnded", ({ doing }) => outages.push(`end ${doing}`));
    const end = store.fail(Object.assign(new Error("down"), { code: "STORE_UNAVAILABLE" }), "recordErrors");
    await hf.enqueue(other);
    await hf.drain();
    await clock.advance("3s");
    end();
    await clock.advance("2s");
    expect(await hf.errorGroups()).toMatchObject([{ count: 1 }]);
    expect(outages).toEqual(["begin error groups", "end error groups"]);
  });

  it("stay bounded if every message differs, and hide no other type", async () => {
    let n = 0;
    const noisy = job({
      type: "noisy",
      retry: { maxAttempts: 1 },
      run: () => {
        const word = String(n++).replaceAll(/\d/g, (digit) => "abcdefghij".charAt(Number(digit)));
        throw new Error(`unknown word ${word}`);
      },
    });
    const { hf, store, clock } = await scene({ jobs: [noisy, other] });
    const fail = async (): Promise<void> => {
      await hf.enqueueMany(
        noisy,
        Array.from({ length: 300 }, () => ({})),
      );
      await hf.enqueue(other, {}, { priority: -1 });
      await hf.drain();
      await clock.advance("2s");
    };
    for (let round = 0; round < 4; round++) await fail();
    for (const [groups] of store.calls("recordErrors")) expect((groups as unknown[]).length).toBeLessThanOrEqual(200);
    expect(await hf.errorGroups({ type: "noisy", limit: 1_000 })).toHaveLength(100);
    expect(await hf.errorGroups({ type: "other" })).toMatchObject([{ count: 4 }]);
    await clock.advance("5m");
    await fail();
    expect(await hf.errorGroups({ type: "noisy", limit: 1_000 })).toHaveLength(200);
  });

  it("reject fingerprints and options that are none", async () => {
    const { hf } = await scene();
    const invalid = { code: "INVALID_OPTION" };
    expect(await errorOf(hf.list({ fingerprint: "x".repeat(1_000_000) }))).toMatchObject(invalid);
    expect(await errorOf(hf.retry({ fingerprint: "" }))).toMatchObject(invalid);
    expect(await errorOf(hf.errorGroups({ limit: 0 }))).toMatchObject(invalid);
    expect(await errorOf(hf.errorGroups({ tpye: "mail" } as object))).toMatchObject({
      message: expect.stringContaining("did you mean type?") as string,
    });
  });
});
