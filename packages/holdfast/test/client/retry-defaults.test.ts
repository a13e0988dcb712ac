import {
  holdfast,
  InvalidOptionError,
  job,
  type Holdfast,
  type HoldfastOptions,
  type JobType,
  type RetryOptions,
} from "holdfast";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { expectRefusal, fileStore, jobOf, open, START } from "./scene.js";

/** A job type that always fails. */
function failing(type: string, retry?: RetryOptions): JobType<undefined> {
  const run = (): never => {
    throw new Error("as it should");
  };
  return (retry === undefined ? job({ type, run }) : job({ type, run, retry })) as JobType<undefined>;
}

/** A client on a file with a fake clock. */
async function onFile(options: HoldfastOptions): Promise<{ hf: Holdfast; clock: FakeClock }> {
  return open({ store: await fileStore(), ...options });
}

/** The delay of each retry, until the job is dead. */
async function delaysOf(hf: Holdfast, clock: FakeClock, type: JobType<undefined>): Promise<number[]> {
  const { id } = await hf.enqueue(type);
  const delays: number[] = [];
  for (;;) {
    await hf.runNext();
    const { state, dueAt } = await jobOf(hf, id);
    if (state === "dead" || dueAt === null) return delays;
    delays.push(dueAt.getTime() - clock.now());
    await clock.advance(dueAt.getTime() - clock.now());
  }
}

const DEFAULTS: RetryOptions = { maxAttempts: 3, backoff: { base: "1s", factor: 3, max: "1m", jitter: 0 } };

describe("a client's retry", () => {
  it("applies to job types without a retry", async () => {
    const type = failing("silent");
    const { hf, clock } = await onFile({ jobs: [type], retry: DEFAULTS });
    expect(await delaysOf(hf, clock, type)).toEqual([1_000, 3_000]);
  });

  it("fills in only what a job type omits, also in its backoff", async () => {
    const attempts = failing("attempts", { maxAttempts: 2 });
    const curve = failing("curve", { backoff: { base: "2s" } });
    const { hf, clock } = await onFile({ jobs: [attempts, curve], retry: DEFAULTS });
    expect(await delaysOf(hf, clock, attempts)).toEqual([1_000]);
    expect(await delaysOf(hf, clock, curve)).toEqual([2_000, 6_000]);
  });

  it("yields to a job type's base or max that contradicts it", async () => {
    const long = failing("long", { backoff: { base: "2h" } });
    const short = failing("short", { backoff: { max: 10 } });
    const { hf, clock } = await onFile({ jobs: [long, short], retry: DEFAULTS });
    expect(await delaysOf(hf, clock, long)).toEqual([7_200_000, 7_200_000]);
    expect(await delaysOf(hf, clock, short)).toEqual([10, 10]);
  });

  it("does not affect a job type that sets everything", async () => {
    const whole = failing("whole", { maxAttempts: 2, backoff: { base: "5s", factor: 1, max: "5s", jitter: 0 } });
    const byFunction = failing("by-function", { maxAttempts: 3, backoff: (attempt) => attempt * 10 });
    const { hf, clock } = await onFile({ jobs: [whole, byFunction], retry: DEFAULTS });
    expect(await delaysOf(hf, clock, whole)).toEqual([5_000]);
    expect(await delaysOf(hf, clock, byFunction)).toEqual([10, 20]);
  });

  it("may be a function, for job types without backoff", async () => {
    const none = failing("none");
    const curve = failing("curve", { backoff: { base: "2s", jitter: 0 } });
    const { hf, clock } = await onFile({ jobs: [none, curve], retry: { maxAttempts: 3, backoff: () => 7 } });
    expect(await delaysOf(hf, clock, none)).toEqual([7, 7]);
    expect(await delaysOf(hf, clock, curve)).toEqual([2_000, 4_000]);
  });

  it("applies to one client and not to another", async () => {
    const type = failing("shared");
    const store = await fileStore();
    const clock = fakeClock(START);
    const clients = await Promise.all(
      [{ retry: { maxAttempts: 1 } }, {}].map((options) => holdfast({ store, clock, logger: false, ...options })),
    );
    onTestFinished(async () => void (await Promise.all(clients.map((hf) => hf.close()))));
    const [strict, usual] = await Promise.all(clients.map(async (hf) => jobOf(hf, (await hf.enqueue(type)).id)));
    expect([strict?.maxAttempts, usual?.maxAttempts]).toEqual([1, 4]);
  });

  it("is overridden by maxAttempts of an enqueue, and used by enqueueMany", async () => {
    const type = failing("counted");
    const { hf } = await onFile({ jobs: [type], retry: DEFAULTS });
    const { id } = await hf.enqueue(type, undefined, { maxAttempts: 9 });
    const [many] = await hf.enqueueMany(type, [undefined]);
    expect((await jobOf(hf, id)).maxAttempts).toBe(9);
    expect((await jobOf(hf, many?.id ?? "")).maxAttempts).toBe(3);
  });

  it("applies to scheduled jobs, of known and unknown types", async () => {
    const type = failing("scheduled");
    const { hf } = await onFile({ jobs: [type], retry: DEFAULTS });
    const known = await hf.schedule("known", { job: type, every: "1h" });
    const unknown = await hf.schedules.create("unknown", { job: "elsewhere", every: "1h" });
    expect([known.maxAttempts, unknown.maxAttempts]).toEqual([3, 3]);
  });

  it("applies to leases of unknown types", async () => {
    const { hf, clock } = await onFile({ retry: DEFAULTS });
    const { id } = await hf.enqueue(failing("leased"));
    const [lease] = await hf.claim();
    await lease?.start();
    expect(await lease?.fail(new Error("no"))).toBe("failed");
    expect((await jobOf(hf, id)).dueAt?.getTime()).toBe(clock.now() + 1_000);
  });

  it("is not affected by later changes of the options", async () => {
    const own = { maxAttempts: 2, backoff: { base: "2s" } };
    const type = failing("kept", own);
    own.backoff.base = "nonsense";
    const { hf, clock } = await onFile({ jobs: [type], retry: DEFAULTS });
    expect(await delaysOf(hf, clock, type)).toEqual([2_000]);
  });

  it("is refused with the wrong field", async () => {
    const refused = { is: InvalidOptionError, code: "INVALID_OPTION" };
    const opening = (retry: unknown): Promise<unknown> =>
      holdfast({ store: "sqlite::memory:", retry: retry as object });
    await expectRefusal(opening({ maxAttempts: 0 }), { ...refused, field: "retry.maxAttempts" });
    await expectRefusal(opening({ backoff: { base: "soon" } }), { ...refused, field: "retry.backoff.base" });
    await expectRefusal(opening({ attempts: 3 }), { ...refused, field: "retry.attempts" });
  });
});
