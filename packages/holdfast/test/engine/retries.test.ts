import { job, NotRetryable, RetryAfter, type JobType, type NoInput, type RetryOptions } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { eventsOf, scene, type Scene } from "./scene.js";

function failing(error: unknown = new Error("the mail server is down"), retry?: RetryOptions): JobType<NoInput, never> {
  return job({
    type: "mail",
    ...(retry === undefined ? {} : { retry }),
    run: (): never => {
      throw error;
    },
  });
}

/** Runs the job until it is dead and returns the delay before each retry. */
async function delaysOf({ hf, clock, job: read }: Scene, id: string): Promise<number[]> {
  const delays: number[] = [];
  for (;;) {
    expect(await hf.runNext()).toBe(true);
    const { state, runAt } = await read(id);
    if (state === "dead") return delays;
    expect(state).toBe("failed");
    const delay = runAt.getTime() - clock.now();
    delays.push(delay);
    await clock.advance(delay - 1);
    expect(await hf.runNext(), "not a millisecond too early").toBe(false);
    await clock.advance(1);
  }
}

describe("retries", () => {
  it("A-30 a failed job waits min(30 s × 2^n, 15 min)", async () => {
    const mail = failing(undefined, { maxAttempts: 9 });
    const on = await scene({ jobs: [mail] });
    const { id } = await on.hf.enqueue(mail);

    await on.hf.runNext();
    const waiting = await on.job(id);
    expect(waiting).toMatchObject({ state: "failed", attempt: 1, finishedAt: null });
    expect(waiting.error?.message).toBe("the mail server is down");
    expect(waiting.runAt.getTime() - on.clock.now()).toBe(30_000);
    await on.clock.advance("30s");

    expect(await delaysOf(on, id)).toEqual([60_000, 120_000, 240_000, 480_000, 900_000, 900_000, 900_000]);
    expect((await on.job(id)).attempt).toBe(9);
  });

  it("A-12 A-31 without attempts left the job is dead", async () => {
    const mail = failing(undefined, { maxAttempts: 1 });
    const { hf, clock, job: read } = await scene({ jobs: [mail] });
    const { id } = await hf.enqueue(mail);
    await hf.runNext();

    expect(await read(id)).toMatchObject({ state: "dead", attempt: 1, dueAt: null, finishedAt: new Date(clock.now()) });
    await clock.advance("1d");
    expect(await hf.runNext()).toBe(false);
  });

  it("A-12 NotRetryable is final despite attempts left", async () => {
    const mail = failing(new NotRetryable("no such address"));
    const { hf, clock, job: read } = await scene({ jobs: [mail] });
    const { id } = await hf.enqueue(mail);
    await hf.runNext();

    const dead = await read(id);
    expect(dead).toMatchObject({ state: "dead", attempt: 1, maxAttempts: 4, finishedAt: new Date(clock.now()) });
    expect(dead.error).toMatchObject({ message: "no such address", code: "NOT_RETRYABLE" });
  });

  it("the default jitter varies the delay by a tenth", async () => {
    const mail = failing();
    for (const [chance, delay] of [
      [0, 27_000],
      [0.5, 30_000],
      [0.999_999, 33_000],
    ] as const) {
      const { hf, clock, job: read } = await scene({ jobs: [mail], random: () => chance });
      const { id } = await hf.enqueue(mail);
      await hf.runNext();
      expect((await read(id)).runAt.getTime() - clock.now()).toBe(delay);
    }
  });

  it("C-06 waits 5 s × 2^(n−1) plus 0–1 s, at most 5 min", async () => {
    const mail = failing(undefined, { maxAttempts: 9, backoff: { base: "5s", factor: 2, max: "5m", jitter: "1s" } });
    async function run(): Promise<number[]> {
      const chances = [0, 0.25, 0.5, 0.75, 0.999, 0.1, 0.2, 0.3];
      const on = await scene({ jobs: [mail], random: () => chances.shift() ?? 0 });
      const { id } = await on.hf.enqueue(mail);
      return delaysOf(on, id);
    }
    const first = await run();
    expect(first).toEqual([5_000, 10_250, 20_500, 40_750, 80_999, 160_100, 300_000, 300_000]);
    expect(await run()).toEqual(first);
  });

  it("waits 30, 60 and 120 s, then is dead and logged as an error", async () => {
    const mail = failing();
    const on = await scene({ jobs: [mail] });
    const died = eventsOf(on.hf, "dead");
    const { id } = await on.hf.enqueue(mail);

    expect(await delaysOf(on, id)).toEqual([30_000, 60_000, 120_000]);
    expect((await on.job(id)).attempt).toBe(4);
    expect(died).toMatchObject([{ id, error: { message: "the mail server is down" } }]);
    const errors = on.lines.filter((line) => line.level === "error");
    expect(errors).toHaveLength(1);
    expect(errors[0]?.fields).toMatchObject({ job: id, type: "mail", error: "the mail server is down" });
  });

  it("E-03 C-08 a dead job can be retried with new attempts", async () => {
    let broken = true;
    const mail = job({
      type: "mail",
      retry: { maxAttempts: 1 },
      run() {
        if (broken) throw new Error("down");
        return { sent: true };
      },
    });
    const { hf, clock, job: read } = await scene({ jobs: [mail] });
    const { id } = await hf.enqueue(mail);
    await hf.runNext();
    expect((await read(id)).state).toBe("dead");
    await clock.advance("1h");

    expect(await hf.retry(id)).toBe("retried");
    expect(await read(id)).toMatchObject({ state: "pending", attempt: 0, runAt: new Date(clock.now()) });
    broken = false;
    expect(await hf.runNext()).toBe(true);
    expect(await read(id)).toMatchObject({ state: "completed", attempt: 1, output: { sent: true } });
  });

  it("C-08 retry makes a failed job due now", async () => {
    const order: string[] = [];
    let broken = true;
    const first = job({
      type: "first",
      run() {
        order.push("first");
        if (broken) throw new Error("down");
      },
    });
    const second = job({ type: "second", run: () => void order.push("second") });
    const { hf, clock, job: read } = await scene({ jobs: [first, second] });
    const { id } = await hf.enqueue(first);
    await hf.runNext();
    broken = false;
    await clock.advance("1s");

    expect(await hf.retry(id)).toBe("retried");
    expect((await read(id)).runAt.getTime()).toBe(clock.now());
    await clock.advance("1s");
    await hf.enqueue(second);
    await hf.drain();
    expect(order).toEqual(["first", "first", "second"]);
  });

  it("pending, running and completed jobs are not retried", async () => {
    const fine = job({ type: "fine", run: () => {} });
    const { hf } = await scene({ jobs: [fine] });
    const { id } = await hf.enqueue(fine);
    expect(await hf.retry(id)).toBe("not-retryable");
    await hf.runNext();
    expect(await hf.retry(id)).toBe("not-retryable");
    expect(await hf.retry("00000000-0000-7000-8000-000000000000")).toBe("missing");
  });

  it("RetryAfter sets the delay, and the attempt counts", async () => {
    const mail = failing(new RetryAfter("17s", "rate limited"));
    const { hf, clock, job: read } = await scene({ jobs: [mail] });
    const { id } = await hf.enqueue(mail);
    await hf.runNext();

    const waiting = await read(id);
    expect(waiting).toMatchObject({ state: "failed", attempt: 1 });
    expect(waiting.error?.message).toBe("rate limited");
    expect(waiting.runAt.getTime() - clock.now()).toBe(17_000);
  });

  it("an invalid result of a backoff function does not prevent the retry", async () => {
    for (const mail of [
      failing(undefined, { backoff: () => Number.NaN }),
      failing(undefined, {
        backoff: () => {
          throw new Error("in the backoff");
        },
      }),
    ]) {
      const { hf, clock, job: read } = await scene({ jobs: [mail] });
      const { id } = await hf.enqueue(mail);
      await hf.runNext();
      const waiting = await read(id);
      expect(waiting.state).toBe("failed");
      expect(waiting.runAt.getTime() - clock.now()).toBe(30_000);
    }
  });

  it("a backoff function receives attempt number and error", async () => {
    const seen: unknown[] = [];
    const down = new Error("down");
    const mail = failing(down, {
      maxAttempts: 3,
      backoff: (attempt, error) => {
        seen.push([attempt, error]);
        return `${attempt}m`;
      },
    });
    const on = await scene({ jobs: [mail] });
    const { id } = await on.hf.enqueue(mail);
    expect(await delaysOf(on, id)).toEqual([60_000, 120_000]);
    expect(seen.slice(0, 2)).toEqual([
      [1, down],
      [2, down],
    ]);
  });

  it("the history keeps the last 20 failed attempts", async () => {
    const mail = failing(undefined, { maxAttempts: 25, backoff: () => "1s" });
    const on = await scene({ jobs: [mail] });
    const { id } = await on.hf.enqueue(mail);
    const startedAt = on.clock.now();
    await delaysOf(on, id);

    const { attempts, attempt } = await on.job(id);
    expect(attempt).toBe(25);
    expect(attempts.map((entry) => entry.attempt)).toEqual(Array.from({ length: 20 }, (_, index) => index + 6));
    const last = new Date(startedAt + 24_000);
    expect(attempts.at(-1)).toMatchObject({ claimedAt: last, startedAt: last, endedAt: last });
    expect(attempts.at(-1)?.worker).toMatch(/:\d+:/);
    expect(attempts.at(-1)?.error?.message).toBe("the mail server is down");
    expect(attempts.at(-1)?.error?.stack).toContain("retries.test");
  });

  it("an InvalidInputError inside a handler is retried", async () => {
    const inner = job({ type: "inner", input: z.object({ n: z.number() }), run: () => {} });
    const outer = job({
      type: "outer",
      async run({ job: { attempt } }) {
        await hf.enqueue(inner, { n: (attempt === 1 ? "one" : attempt) as number });
      },
    });
    const { hf, clock, job: read } = await scene({ jobs: [inner, outer] });
    const { id } = await hf.enqueue(outer);
    await hf.drain();
    const { state, error, attempts } = await read(id);
    expect({ state, code: error?.code }).toEqual({ state: "failed", code: "INVALID_INPUT" });
    expect(attempts[0]?.error?.stack).toContain("retries.test");
    await clock.advance("30s");
    await hf.drain();
    expect((await read(id)).state).toBe("completed");
  });

  it("a schema that throws fails the attempt, not the job", async () => {
    let asked = 0;
    // Called once at the enqueue, and at every attempt.
    const validate = (value: unknown): { value: { n: number } } => {
      if (++asked === 2) throw new Error("ECONNRESET");
      return { value: value as { n: number } };
    };
    const lookUp = { "~standard": { version: 1, vendor: "a table", validate } } as const;
    const type = job({ type: "t", input: lookUp, run: () => {} });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type, { n: 1 });
    await hf.drain();
    expect(await read(id)).toMatchObject({ state: "failed", error: { message: "ECONNRESET" } });
    await clock.advance("30s");
    await hf.drain();
    expect((await read(id)).state).toBe("completed");
  });
});
