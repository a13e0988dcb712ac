import { DuplicateJobError, job, type EnqueueResult, type Holdfast, type UniqueOptions } from "holdfast";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { describe, expect, it } from "vitest";
import { double, errorOf, expectRefusal, fileStore, jobCount, jobOf, open } from "./scene.js";

type Scope = NonNullable<UniqueOptions["scope"]>;
type Stage = "waits" | "runs" | "has failed and waits" | "completed" | "is dead" | "was cancelled" | "was removed";

const STAGES: readonly Stage[] = [
  "waits",
  "runs",
  "has failed and waits",
  "completed",
  "is dead",
  "was cancelled",
  "was removed",
];
const WAITING: readonly Stage[] = ["waits", "has failed and waits"];

/** Moves a waiting job to a stage, through the public API. */
async function moveTo(hf: Holdfast, id: string, stage: Stage): Promise<void> {
  if (stage === "waits") return;
  if (stage === "was cancelled") return void (await hf.cancel(id));
  if (stage === "was removed") return void (await hf.remove(id));
  const [lease] = await hf.claim();
  expect(lease?.id).toBe(id);
  await lease?.start();
  if (stage === "completed") await lease?.complete();
  if (stage === "is dead") await lease?.fail("broken", { retry: false });
  if (stage === "has failed and waits") await lease?.fail("broken");
}

async function first(
  unique: UniqueOptions,
  stage: Stage,
): Promise<{
  hf: Holdfast;
  clock: FakeClock;
  id: string;
  second: (over?: Partial<UniqueOptions>) => Promise<EnqueueResult>;
}> {
  const { hf, clock } = await open();
  const { id } = await hf.enqueue(double, { n: 1 }, { unique });
  await moveTo(hf, id, stage);
  const second = (over = {}): Promise<EnqueueResult> =>
    hf.enqueue(double, { n: 2 }, { unique: { ...unique, ...over } });
  return { hf, clock, id, second };
}

/** In which stages of the first job its key is held. */
const HELD: [string, Scope, readonly Stage[]][] = [
  ["waiting", "waiting", ["waits"]],
  ["live", "live", ["waits", "runs", "has failed and waits"]],
  ["{ period }", { period: "1h" }, STAGES.filter((stage) => stage !== "was removed")],
  ["{ calendar }", { calendar: "day" }, STAGES.filter((stage) => stage !== "was removed")],
  ["forever", "forever", STAGES.filter((stage) => stage !== "was removed")],
];

describe.each(HELD)("B-11 C-04 a key of scope %s", (_name, scope, heldIn) => {
  describe.each(STAGES)("while the first job %s", (stage) => {
    const held = heldIn.includes(stage);

    it(`keep ${held ? "returns the first job" : "finds the key free"}`, async () => {
      const { hf, id, second } = await first({ key: "k", scope, onConflict: "keep" }, stage);
      const result = await second();
      if (!held) return expectFree(hf, id, result);
      expect(result).toEqual({ id, duplicate: true, replaced: false });
      expect((await jobOf(hf, id)).input).toEqual({ n: 1 });
    });

    it(`reject ${held ? "throws and names the holder" : "finds the key free"}`, async () => {
      const { hf, id, second } = await first({ key: "k", scope, onConflict: "reject" }, stage);
      if (!held) return expectFree(hf, id, await second());
      const before = await jobCount(hf);
      await expectRefusal(second(), {
        is: DuplicateJobError,
        code: "DUPLICATE_JOB",
        says: new RegExp(`"k" is held by job ${id}`),
      });
      expect(await errorOf(second())).toMatchObject({ key: "k", holder: id });
      expect(await jobCount(hf)).toBe(before);
    });

    const replaces = held && WAITING.includes(stage);
    it(`replace ${replaces ? "replaces it" : held ? "leaves it unchanged" : "finds the key free"}`, async () => {
      const { hf, id, second } = await first({ key: "k", scope, onConflict: "replace" }, stage);
      const result = await second();
      if (!held) return expectFree(hf, id, result);
      expect(result).toEqual({ id, duplicate: true, replaced: replaces });
      expect((await jobOf(hf, id)).input).toEqual({ n: replaces ? 2 : 1 });
      if (replaces) expect(await jobOf(hf, id)).toMatchObject({ state: "pending", attempt: 0, error: null });
    });
  });
});

async function expectFree(hf: Holdfast, id: string, result: EnqueueResult): Promise<void> {
  expect(result).toMatchObject({ duplicate: false, replaced: false });
  expect(result.id).not.toBe(id);
  expect((await jobOf(hf, result.id)).input).toEqual({ n: 2 });
}

describe("keys", () => {
  it("D-02 a period ends after its time, not before", async () => {
    const { clock, id, second } = await first({ key: "k", scope: { period: "1h" } }, "completed");
    await clock.advance(3_599_999);
    expect((await second()).id).toBe(id);
    await clock.advance(1);
    const fresh = await second();
    expect(fresh.duplicate).toBe(false);
    await clock.advance("59m");
    expect((await second()).id).toBe(fresh.id);
  });

  it("D-02 a period ends when its job is deleted", async () => {
    for (const scope of [{ period: "30d" }, { calendar: "year" }] as const) {
      const { hf, clock, id, second } = await first({ key: "k", scope }, "completed");
      await clock.advance("8d");
      expect((await second()).id).toBe(id);
      expect(await hf.purge()).toBe(1);
      const fresh = await second();
      expect(fresh).toMatchObject({ duplicate: false });
      expect(await hf.get(fresh.id)).toMatchObject({ state: "pending" });
      expect((await second({ onConflict: "keep" })).id).toBe(fresh.id);
    }
  });

  it("D-02 a calendar day ends at midnight in its zone", async () => {
    // 00:30 in Berlin.
    const { hf, clock } = await open({ clock: fakeClock(Date.UTC(2026, 2, 28, 23, 30)) });
    const ask = (zone?: string): Promise<EnqueueResult> => {
      const scope = zone === undefined ? ({ calendar: "day" } as const) : ({ calendar: "day", zone } as const);
      return hf.enqueue(double, { n: 1 }, { unique: { key: "k", scope } });
    };
    const berlin = await ask("Europe/Berlin");
    const utc = await ask();
    expect(utc.id).not.toBe(berlin.id);
    await clock.advance("29m");
    expect((await ask()).id).toBe(utc.id);
    await clock.advance("1m");
    expect((await ask()).duplicate).toBe(false);
    // The clocks go forward on this day: it has 23 hours.
    await clock.advance(22 * 3_600_000 - 1);
    expect((await ask("europe/berlin")).id).toBe(berlin.id);
    await clock.advance(1);
    expect((await ask("Europe/Berlin")).duplicate).toBe(false);
    expect((await jobOf(hf, berlin.id)).key).toBe("k");
    const rejecting = { key: "k", scope: { calendar: "day", zone: "Europe/Berlin" }, onConflict: "reject" } as const;
    expect(await errorOf(hf.enqueue(double, { n: 1 }, { unique: rejecting }))).toMatchObject({ key: "k" });
  });

  it("D-02 processes with different clocks create one job per day", async () => {
    const store = await fileStore();
    const midnight = Date.UTC(2026, 5, 2);
    const [slow, fast] = [
      await open({ store, clock: fakeClock(midnight - 2_000) }),
      await open({ store, clock: fakeClock(midnight) }),
    ];
    const ask = ({ hf }: { hf: Holdfast }): Promise<EnqueueResult> =>
      hf.enqueue(double, { n: 1 }, { unique: { key: "k", scope: { calendar: "day" } } });
    const [yesterday, today] = [await ask(slow), await ask(fast)];
    expect(today).toMatchObject({ duplicate: false });
    expect((await ask(slow)).id).toBe(yesterday.id);
    expect((await ask(fast)).id).toBe(today.id);
    await slow.clock.advance(2_000);
    expect((await ask(slow)).id).toBe(today.id);
  });

  it("warns once per type if a period exceeds the retention", async () => {
    const warnings: object[] = [];
    const logger = { debug() {}, info() {}, error() {}, warn: (fields: object) => void warnings.push(fields) };
    const { hf } = await open({ logger, retention: { completed: "7d" } });
    const ask = (scope: Scope): Promise<EnqueueResult> => hf.enqueue(double, { n: 1 }, { unique: { key: "k", scope } });
    for (const scope of ["forever", { period: "7d" }, { calendar: "week" }] as const) await ask(scope);
    expect(warnings).toEqual([]);
    for (const scope of [{ period: "8d" }, { calendar: "year" }] as const) await ask(scope);
    expect(warnings).toEqual([{ type: "double", period: "8d", retention: "7d" }]);
  });

  it("does not warn if the job type's own retention is long enough", async () => {
    const warnings: object[] = [];
    const logger = { debug() {}, info() {}, error() {}, warn: (fields: object) => void warnings.push(fields) };
    const kept = job({ type: "kept", retention: { completed: "8d" }, run: () => {} });
    const { hf } = await open({ logger, retention: { completed: "7d" }, jobs: [kept] });
    await hf.enqueue(kept, {}, { unique: { key: "k", scope: { period: "8d" } } });
    expect(warnings).toEqual([]);
    await hf.enqueue(kept, {}, { unique: { key: "k", scope: { period: "9d" } } });
    expect(warnings).toEqual([{ type: "kept", period: "9d", retention: "8d" }]);
  });

  it("a forever key outlives its purged job", async () => {
    const { hf, clock, id, second } = await first({ key: "k", scope: "forever" }, "completed");
    await clock.advance("8d");
    expect(await hf.purge()).toBe(1);
    expect(await hf.get(id)).toBeNull();
    expect(await second()).toEqual({ id, duplicate: true, replaced: false });
    await expectRefusal(second({ onConflict: "reject" }), { is: DuplicateJobError, code: "DUPLICATE_JOB" });
  });

  it("the scope of the holder decides", async () => {
    const { id, second } = await first({ key: "k", scope: "waiting" }, "runs");
    const taken = await second({ scope: "forever" });
    expect(taken.id).not.toBe(id);
    expect((await second({ scope: "waiting" })).id).toBe(taken.id);
  });

  it("a string means scope live and onConflict keep", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(double, { n: 1 }, { unique: "k" });
    expect(await hf.enqueue(double, { n: 2 }, { unique: "k" })).toEqual({ id, duplicate: true, replaced: false });
    await moveTo(hf, id, "completed");
    expect((await hf.enqueue(double, { n: 3 }, { unique: "k" })).duplicate).toBe(false);
  });

  it("replace takes all values of the new job, under the first id", async () => {
    const { hf, clock } = await open();
    const key = { key: "k", onConflict: "replace" } as const;
    const { id } = await hf.enqueue(double, { n: 1 }, { unique: key, tags: ["old"], user: "ada", priority: 5 });
    await clock.advance(50);
    const options = { queue: "other", tags: ["new"], user: "ada", priority: 1, delay: 1_000, maxAttempts: 9 };
    await hf.enqueue(double, { n: 2 }, { ...options, unique: key });
    const { delay: _delay, ...same } = options;
    expect(await hf.get(id)).toMatchObject({ ...same, input: { n: 2 }, runAt: new Date(clock.now() + 1_000) });
    expect((await hf.list({ tag: "old" })).jobs).toEqual([]);
    expect((await hf.stats()).queues).toMatchObject({ other: { pending: 1 } });
    expect(await jobCount(hf)).toBe(1);
  });

  it("a key with a user belongs to that user", async () => {
    const { hf } = await open();
    const results = [
      await hf.enqueue(double, { n: 1 }, { unique: "k" }),
      await hf.enqueue(double, { n: 1 }, { unique: "k", user: "ada" }),
      await hf.enqueue(double, { n: 1 }, { unique: "k", user: "bob" }),
    ];
    expect(results.map(({ duplicate }) => duplicate)).toEqual([false, false, false]);
    expect((await hf.enqueue(double, { n: 1 }, { unique: "k", user: "ada" })).id).toBe(results[1]?.id);
    for (const { id } of results) expect((await hf.get(id))?.key).toBe("k");
    await expect(
      hf.enqueue(double, { n: 1 }, { unique: { key: "k", onConflict: "reject" }, user: "bob" }),
    ).rejects.toMatchObject({ code: "DUPLICATE_JOB", key: "k", holder: results[2]?.id });
  });

  it("B-11 fifty concurrent enqueues with one key create one job", async () => {
    const { hf } = await open();
    const results = await Promise.all(Array.from({ length: 50 }, (_, n) => hf.enqueue(double, { n }, { unique: "k" })));
    expect(new Set(results.map((result) => result.id)).size).toBe(1);
    expect(results.filter((result) => !result.duplicate)).toHaveLength(1);
    expect(await jobCount(hf)).toBe(1);
  });

  it("a retry takes a live key again, or returns key-held", async () => {
    const { hf, id, second } = await first({ key: "k" }, "is dead");
    const other = await second();
    expect(await hf.retry(id)).toBe("key-held");
    await hf.cancel(other.id);
    expect(await hf.retry(id)).toBe("retried");
    expect((await second()).id).toBe(id);
  });
});
