import {
  holdfast,
  InvalidInputError,
  InvalidOptionError,
  job,
  NotRetryable,
  type ErrorReporter,
  type JobFailure,
} from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { closeDespiteReporter, deferred, recordingLogger, scene } from "../engine/scene.js";

/** A reporter that records its failures. */
function reporter(): ErrorReporter & { failures: JobFailure[] } {
  const failures: JobFailure[] = [];
  return { failures, report: (failure) => void failures.push(failure) };
}

describe("D-09 an error reporter gets", () => {
  it("every failed attempt, with the thrown error and job", async () => {
    const cause = new TypeError("the cause");
    const thrown = new Error("the mail server is away", { cause });
    const mail = job({
      type: "mail",
      queue: "outbox",
      tags: ["news"],
      input: z.object({ to: z.string() }),
      retry: { maxAttempts: 2, backoff: { base: "1s" } },
      run: () => Promise.reject(thrown),
    });
    const recorder = reporter();
    const { hf, clock } = await scene({ jobs: [mail], reporter: recorder });
    const worker = hf.work();
    const { id } = await hf.enqueue(mail, { to: "ada" }, { user: "u1" });
    await clock.advance("5s");
    const about = { id, type: "mail", queue: "outbox", maxAttempts: 2, user: "u1", tags: ["news"] };
    const common = { kind: "attempt", error: thrown, input: { to: "ada" }, worker: worker.id };
    expect(recorder.failures).toEqual([
      { ...common, job: { ...about, attempt: 1 }, final: false },
      { ...common, job: { ...about, attempt: 2 }, final: true },
    ]);
    expect(recorder.failures[0]?.error).toBe(thrown);
  });

  it("NotRetryable errors, timeouts and invalid inputs", async () => {
    const final = job({ type: "final", run: () => Promise.reject(new NotRetryable("gone")) });
    const slow = job({ type: "slow", timeout: "1s", run: ({ signal }) => aborted(signal) });
    const before = job({ type: "strict", run: () => {} });
    const strict = job({ type: "strict", input: z.object({ n: z.number() }), run: () => {} });
    const recorder = reporter();
    const { hf, clock, another } = await scene({ jobs: [final, slow, strict], reporter: recorder });
    await (await another()).enqueue(before, {});
    await hf.enqueue(final, {});
    await hf.enqueue(slow, {});
    hf.work();
    await clock.advance("2s");
    expect(recorder.failures.map((failure) => [failure.job.type, failure.kind, failure.final])).toEqual([
      ["strict", "attempt", true],
      ["final", "attempt", true],
      ["slow", "attempt", false],
    ]);
    expect(recorder.failures[0]?.error).toBeInstanceOf(InvalidInputError);
    expect(recorder.failures[2]?.error).toMatchObject({ code: "JOB_TIMEOUT" });
  });

  it("an abandoned handler, once", async () => {
    const gate = deferred();
    const deaf = job({ type: "deaf", timeout: "1s", run: () => gate.promise });
    const recorder = reporter();
    const { hf, clock } = await scene({ jobs: [deaf], reporter: recorder });
    const { id } = await hf.enqueue(deaf, {});
    hf.work();
    await clock.advance("2m");
    gate.resolve();
    await clock.settle();
    expect(recorder.failures[0]).toMatchObject({ kind: "stuck", final: false, job: { id, attempt: 1 } });
    expect(recorder.failures[0]?.error).toMatchObject({ code: "HANDLER_STUCK", cause: { code: "JOB_TIMEOUT" } });
    expect(recorder.failures.filter(({ job: { attempt } }) => attempt === 1)).toHaveLength(1);
  });

  it("dead letters without a handler or a live worker", async () => {
    const recorder = reporter();
    const lost = job({ type: "lost", input: z.object({ n: z.number() }), retry: { maxAttempts: 1 }, run: () => {} });
    const { hf, clock, another } = await scene({ jobs: [lost], reporter: recorder });
    const other = await another();
    const ids = [await other.enqueue(lost, { n: 1 }), await other.enqueue(lost, { n: 2 })].map(({ id }) => id);
    for (const lease of await other.claim({ limit: 2, lease: "1s" })) await lease.start();
    await clock.advance("2s");
    await hf.runNext();
    expect(await hf.reapExpiredLeases()).toBe(0);
    await other.enqueue(job({ type: "unknown", run: () => {} }), {});
    await hf.drain({ unknownType: "dead" });
    const { id: third } = await other.enqueue(lost, { n: 3 });
    for (const lease of await other.claim({ lease: "1s" })) await lease.start();
    await clock.advance("2s");
    expect(await hf.reapExpiredLeases()).toBe(1);
    await clock.settle();
    expect(recorder.failures.map(({ kind, final, job: { type }, input }) => [kind, final, type, input])).toEqual([
      ["dead-lettered", true, "lost", { n: 1 }],
      ["dead-lettered", true, "lost", { n: 2 }],
      ["no-handler", true, "unknown", {}],
      ["dead-lettered", true, "lost", { n: 3 }],
    ]);
    expect(recorder.failures.map((failure) => failure.job.id).filter((id) => ids.includes(id))).toEqual(ids);
    expect(recorder.failures.at(-1)).toMatchObject({
      worker: null,
      job: { id: third },
      error: { code: "STALE_CLAIM" },
    });
    expect(recorder.failures[2]?.error).toMatchObject({ message: "No handler registered for job_type: unknown" });
  });

  it("failures reported through a lease", async () => {
    const recorder = reporter();
    const { hf } = await scene({ reporter: recorder });
    await hf.enqueue(job({ type: "own", run: () => {} }), {});
    const [lease] = await hf.claim();
    const thrown = new Error("manual");
    await lease?.fail(thrown);
    expect(recorder.failures).toMatchObject([{ kind: "attempt", error: thrown, final: false, job: { type: "own" } }]);
  });

  it("no completions, cancellations, expiries, lost leases or releases", async () => {
    const recorder = reporter();
    const fine = job({ type: "fine", run: () => {} });
    const waits = job({ type: "waits", run: ({ signal }) => aborted(signal) });
    const { hf, clock } = await scene({ jobs: [fine, waits], reporter: recorder });
    await hf.enqueue(fine, {});
    for (const queue of ["found by a claim", "found by maintenance"]) {
      await hf.enqueue(fine, {}, { queue, expiresAt: clock.now() + 300 });
    }
    const { id } = await hf.enqueue(waits, {});
    await clock.advance("500ms");
    await hf.drain({ queues: ["found by a claim"] });
    expect(await hf.expireOverdue()).toBe(1);
    const worker = hf.work({ concurrency: 2, grace: 0 });
    await clock.advance("100ms");
    await hf.cancel(id);
    await clock.advance("1m");
    await hf.enqueue(waits, {});
    await clock.advance("1s");
    const stopped = worker.stop();
    await clock.advance("10s");
    await stopped;
    expect((await hf.stats()).states).toMatchObject({ completed: 1, dead: 2, cancelled: 1, pending: 1 });
    expect(recorder.failures).toEqual([]);
  });
});

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
}

describe("the input of a report", () => {
  it("is redacted, the stored job is not", async () => {
    const recorder = reporter();
    const bad = job({
      type: "bad",
      input: z.object({ user: z.string(), password: z.string(), cards: z.array(z.object({ number: z.string() })) }),
      run: () => Promise.reject(new Error("no")),
    });
    const redact = ["input.password", "input.cards.*.number"];
    const { hf, job: read } = await scene({ jobs: [bad], reporter: recorder, redact });
    const input = { user: "ada", password: "secret", cards: [{ number: "4242" }] };
    const { id } = await hf.enqueue(bad, input);
    await hf.runNext();
    expect(recorder.failures[0]?.input).toEqual({
      user: "ada",
      password: "[redacted]",
      cards: [{ number: "[redacted]" }],
    });
    expect((await read(id)).input).toEqual(input);
  });
});

describe("a failing error reporter", () => {
  const bad = job({ type: "bad", retry: { maxAttempts: 1 }, run: () => Promise.reject(new Error("no")) });

  for (const [how, report] of [
    ["throws", () => raise("in report")],
    ["rejects", () => Promise.reject(new Error("in report"))],
  ] as const) {
    it(`${how}: is logged and does not affect the job`, async () => {
      const { hf, lines, job: read, clock } = await scene({ jobs: [bad], reporter: { report } });
      const { id } = await hf.enqueue(bad, {});
      await hf.runNext();
      await clock.settle();
      expect((await read(id)).state).toBe("dead");
      expect(lines.filter(({ message }) => message === "the error reporter failed")).toHaveLength(1);
    });
  }

  it("never resolves: jobs do not wait, close only briefly", async () => {
    const { logger } = recordingLogger();
    const reports = { report: () => new Promise(() => {}), flush: () => new Promise(() => {}) };
    const hf = await holdfast({ store: "sqlite::memory:", jobs: [bad], reporter: reports, logger });
    await hf.enqueue(bad, {});
    await hf.runNext();
    expect((await hf.stats()).states.dead).toBe(1);
    await closeDespiteReporter(hf);
  });

  it("close waits for reports in progress and flushes", async () => {
    const order: string[] = [];
    const sent = deferred();
    const reports = {
      report: () => sent.promise.then(() => void order.push("sent")),
      flush: () => Promise.resolve(void order.push("flushed")),
    };
    const hf = await holdfast({ store: "sqlite::memory:", jobs: [bad], reporter: reports, logger: false });
    await hf.enqueue(bad, {});
    await hf.runNext();
    const closed = hf.close();
    sent.resolve();
    await closed;
    expect(order).toEqual(["sent", "flushed"]);
  });

  it("refuses an invalid reporter", async () => {
    for (const given of [{}, null, "sentry", { report: "x" }]) {
      await expect(holdfast({ store: "sqlite::memory:", reporter: given as never })).rejects.toThrow(
        InvalidOptionError,
      );
    }
    await expect(holdfast({ store: "sqlite::memory:", telemetry: {} as never })).rejects.toThrow(/^telemetry: /);
    await expect(holdfast({ store: "sqlite::memory:", redact: ["a..b"] })).rejects.toThrow(/^redact\.0: /);
  });
});

function raise(message: string): never {
  throw new Error(message);
}
