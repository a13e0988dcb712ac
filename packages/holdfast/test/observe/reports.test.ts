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
import { deferred, recordingLogger, scene } from "../engine/scene.js";

/** A reporter that keeps what it is told. */
function reporter(): ErrorReporter & { failures: JobFailure[] } {
  const failures: JobFailure[] = [];
  return { failures, report: (failure) => void failures.push(failure) };
}

describe("D-09 an error reporter is told of", () => {
  it("every failed attempt, with the error as it was thrown and the job it was thrown for", async () => {
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
    const told = reporter();
    const { hf, clock } = await scene({ jobs: [mail], reporter: told });
    const worker = hf.work();
    const { id } = await hf.enqueue(mail, { to: "ada" }, { user: "u1" });
    await clock.advance("5s");
    const about = { id, type: "mail", queue: "outbox", maxAttempts: 2, user: "u1", tags: ["news"] };
    const common = { kind: "attempt", error: thrown, input: { to: "ada" }, worker: worker.id };
    expect(told.failures).toEqual([
      { ...common, job: { ...about, attempt: 1 }, final: false },
      { ...common, job: { ...about, attempt: 2 }, final: true },
    ]);
    expect(told.failures[0]?.error).toBe(thrown);
  });

  it("a job told not to retry, a timeout, and an input that does not fit", async () => {
    const final = job({ type: "final", run: () => Promise.reject(new NotRetryable("gone")) });
    const slow = job({ type: "slow", timeout: "1s", run: ({ signal }) => aborted(signal) });
    const before = job({ type: "strict", run: () => {} });
    const strict = job({ type: "strict", input: z.object({ n: z.number() }), run: () => {} });
    const told = reporter();
    const { hf, clock, another } = await scene({ jobs: [final, slow, strict], reporter: told });
    await (await another()).enqueue(before, {});
    await hf.enqueue(final, {});
    await hf.enqueue(slow, {});
    hf.work();
    await clock.advance("2s");
    expect(told.failures.map((failure) => [failure.job.type, failure.kind, failure.final])).toEqual([
      ["strict", "attempt", true],
      ["final", "attempt", true],
      ["slow", "attempt", false],
    ]);
    expect(told.failures[0]?.error).toBeInstanceOf(InvalidInputError);
    expect(told.failures[2]?.error).toMatchObject({ code: "JOB_TIMEOUT" });
  });

  it("a handler that was written off, once", async () => {
    const gate = deferred();
    const deaf = job({ type: "deaf", timeout: "1s", run: () => gate.promise });
    const told = reporter();
    const { hf, clock } = await scene({ jobs: [deaf], reporter: told });
    const { id } = await hf.enqueue(deaf, {});
    hf.work();
    await clock.advance("2m");
    gate.resolve();
    await clock.settle();
    expect(told.failures[0]).toMatchObject({ kind: "stuck", final: false, job: { id, attempt: 1 } });
    expect(told.failures[0]?.error).toMatchObject({ code: "HANDLER_STUCK", cause: { code: "JOB_TIMEOUT" } });
    expect(told.failures.filter(({ job: { attempt } }) => attempt === 1)).toHaveLength(1);
  });

  it("a dead letter without a handler, and one whose workers vanished, found by a claim or by maintenance", async () => {
    const told = reporter();
    const lost = job({ type: "lost", input: z.object({ n: z.number() }), retry: { maxAttempts: 1 }, run: () => {} });
    const { hf, clock, another } = await scene({ jobs: [lost], reporter: told });
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
    expect(told.failures.map(({ kind, final, job: { type }, input }) => [kind, final, type, input])).toEqual([
      ["given-up", true, "lost", { n: 1 }],
      ["given-up", true, "lost", { n: 2 }],
      ["no-handler", true, "unknown", {}],
      ["given-up", true, "lost", { n: 3 }],
    ]);
    expect(told.failures.map((failure) => failure.job.id).filter((id) => ids.includes(id))).toEqual(ids);
    expect(told.failures.at(-1)).toMatchObject({ worker: null, job: { id: third }, error: { code: "STALE_CLAIM" } });
    expect(told.failures[2]?.error).toMatchObject({ message: "No handler registered for job_type: unknown" });
  });

  it("what a runner of its own calls failed", async () => {
    const told = reporter();
    const { hf } = await scene({ reporter: told });
    await hf.enqueue(job({ type: "own", run: () => {} }), {});
    const [lease] = await hf.claim();
    const thrown = new Error("manual");
    await lease?.fail(thrown);
    expect(told.failures).toMatchObject([{ kind: "attempt", error: thrown, final: false, job: { type: "own" } }]);
  });

  it("nothing that is no failure: an end, a cancellation, an expiry, a lost lease, a release", async () => {
    const told = reporter();
    const fine = job({ type: "fine", run: () => {} });
    const waits = job({ type: "waits", run: ({ signal }) => aborted(signal) });
    const { hf, clock } = await scene({ jobs: [fine, waits], reporter: told });
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
    expect(told.failures).toEqual([]);
  });
});

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
}

describe("what a report says of the input", () => {
  it("leaves out what `redact` names, and the stored job keeps it", async () => {
    const told = reporter();
    const bad = job({
      type: "bad",
      input: z.object({ user: z.string(), password: z.string(), cards: z.array(z.object({ number: z.string() })) }),
      run: () => Promise.reject(new Error("no")),
    });
    const redact = ["input.password", "input.cards.*.number"];
    const { hf, job: read } = await scene({ jobs: [bad], reporter: told, redact });
    const input = { user: "ada", password: "secret", cards: [{ number: "4242" }] };
    const { id } = await hf.enqueue(bad, input);
    await hf.runNext();
    expect(told.failures[0]?.input).toEqual({
      user: "ada",
      password: "[redacted]",
      cards: [{ number: "[redacted]" }],
    });
    expect((await read(id)).input).toEqual(input);
  });
});

describe("an error reporter that is itself at fault", () => {
  const bad = job({ type: "bad", retry: { maxAttempts: 1 }, run: () => Promise.reject(new Error("no")) });

  for (const [how, report] of [
    ["throws", () => raise("in report")],
    ["rejects", () => Promise.reject(new Error("in report"))],
  ] as const) {
    it(`${how}: it is logged, and the job is as dead as without it`, async () => {
      const { hf, lines, job: read, clock } = await scene({ jobs: [bad], reporter: { report } });
      const { id } = await hf.enqueue(bad, {});
      await hf.runNext();
      await clock.settle();
      expect((await read(id)).state).toBe("dead");
      expect(lines.filter(({ message }) => message === "the error reporter failed")).toHaveLength(1);
    });
  }

  it("never answers: jobs do not wait for it, and closing only a moment", async () => {
    const { logger } = recordingLogger();
    const reports = { report: () => new Promise(() => {}), flush: () => new Promise(() => {}) };
    const hf = await holdfast({ store: "sqlite::memory:", jobs: [bad], reporter: reports, logger });
    await hf.enqueue(bad, {});
    await hf.runNext();
    expect((await hf.stats()).states.dead).toBe(1);
    await hf.close();
  });

  it("closing waits for what is on its way, and then has it sent", async () => {
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

  it("is refused if it is none", async () => {
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
