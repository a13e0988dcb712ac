import { job, NotRetryable } from "holdfast";
import { describe, expect, it } from "vitest";
import { errorOf } from "../client/scene.js";
import { deferred, scene, type Scene } from "./scene.js";

const mail = job({ type: "mail", queue: "mail", run: () => {} });
const fragile = job({
  type: "fragile",
  retry: { maxAttempts: 4, backoff: () => 60_000 },
  run: () => {
    throw new Error("no route to host");
  },
});

/** The reasons, as `kind: text`. */
async function reasons({ hf }: Scene, id: string): Promise<string[]> {
  const { text, reasons: found } = await hf.explain(id);
  expect(text).toBe(found[0]?.text);
  return found.map((reason) => `${reason.kind}: ${reason.text}`);
}

describe("explain", () => {
  it("says that no worker is live", async () => {
    const on = await scene({ jobs: [mail] });
    const { id } = await on.hf.enqueue(mail);
    expect(await reasons(on, id)).toEqual(["no-worker: No worker is live."]);
  });

  it("says when a delayed job is due, and how to change it", async () => {
    const on = await scene({ jobs: [mail] });
    const { id } = await on.hf.enqueue(mail, {}, { delay: "4m" });
    const [first] = (await on.hf.explain(id)).reasons;
    expect(first).toEqual({
      kind: "due-later",
      text: "It is due in 4m, at 2026-01-01T00:04:00Z.",
      change: "hf.promote(id) makes it due now.",
      until: new Date(on.clock.now() + 240_000),
    });
  });

  it("says since when the queue, or all queues, are paused", async () => {
    const on = await scene({ jobs: [mail] });
    const { id } = await on.hf.enqueue(mail);
    await on.hf.pause("mail");
    await on.clock.advance("3m 20s");
    await on.hf.pause();
    expect((await reasons(on, id)).filter((text) => text.startsWith("paused")).toSorted()).toEqual([
      "paused: All queues have been paused for 0 ms.",
      'paused: Queue "mail" has been paused for 3m 20s.',
    ]);
    await on.hf.resume();
    await on.hf.resume("mail");
    expect(await reasons(on, id)).toEqual(["no-worker: No worker is live."]);
  });

  it("counts the jobs that come first", async () => {
    const on = await scene({ jobs: [mail, fragile] });
    const { id } = await on.hf.enqueue(mail, {}, { priority: -1 });
    await on.hf.enqueueMany(mail, [{}, {}, {}]);
    await on.hf.enqueue(mail, {}, { delay: "1h", priority: 5 });
    const { reasons: found } = await on.hf.explain(id);
    expect(found.find(({ kind }) => kind === "ahead")).toMatchObject({
      jobs: 3,
      text: "3 due jobs of its queue come first: higher priority, or due earlier.",
    });
  });

  it("names the queues and types of the workers that are live", async () => {
    const on = await scene({ jobs: [mail] });
    on.hf.work({ queues: ["other"] });
    await on.clock.settle();
    const { id } = await on.hf.enqueue(mail);
    expect(await reasons(on, id)).toEqual([
      'no-worker: No live worker serves queue "mail"; the live ones serve "other".',
    ]);
    const { id: unknown } = await on.hf.enqueueNamed("unheard", {}, { queue: "other", delay: "1h" });
    expect(await reasons(on, unknown)).toContain(
      'no-worker: No live worker of queue "other" has a handler for "unheard"; they have "mail".',
    );
  });

  it("shows the error that a retry follows", async () => {
    const on = await scene({ jobs: [fragile] });
    const { id } = await on.hf.enqueue(fragile);
    await on.hf.drain();
    expect(await reasons(on, id)).toContain(
      'retry: It waits for attempt 2 of 4 after "no route to host": due in 1m, at 2026-01-01T00:01:00Z.',
    );
  });

  it("names the worker that runs it, and its last heartbeat", async () => {
    const gate = deferred();
    const slow = job({ type: "slow", run: () => gate.promise });
    const on = await scene({ jobs: [slow] });
    const worker = on.hf.work({ concurrency: 1 });
    const { id } = await on.hf.enqueue(slow);
    await on.clock.advance("1s");
    const { id: behind } = await on.hf.enqueue(slow);
    const [first] = (await on.hf.explain(id)).reasons;
    expect(first).toMatchObject({ kind: "leased", workers: [worker.id], change: "hf.cancel(id) aborts it." });
    expect(first?.text).toMatch(/^Worker .+ on .+ runs it: leased until .+Z, last heartbeat .+ ago\.$/);
    await on.clock.advance("10s");
    const busy = (await on.hf.explain(behind)).reasons.map(({ kind }) => kind);
    expect(busy.some((kind) => kind === "busy" || kind === "leased")).toBe(true);
    await on.hf.cancel(id);
    expect((await on.hf.explain(id)).reasons[0]).toMatchObject({ kind: "cancelling" });
    gate.resolve();
  });

  it("says that the worker of a leased job is lost, and what keeps others from it", async () => {
    const on = await scene({ jobs: [mail] });
    const { id } = await on.hf.enqueue(mail);
    await on.hf.claim({ limit: 1, lease: "5m" });
    await on.clock.advance("6m");
    await on.hf.pause("mail");
    const [[lost, ...others], user] = [
      (await on.hf.explain(id)).reasons,
      (await on.hf.forUser("ada").explain((await on.hf.enqueue(mail, {}, { user: "ada" })).id)).text,
    ];
    expect(lost).toMatchObject({ kind: "worker-lost", until: null, change: expect.stringContaining("next poll") });
    expect(lost?.text).toMatch(/^Worker .+ had it, but did not settle it\. Its lease ended at 2026-01-01T00:05:00Z\.$/);
    expect(others.map(({ kind }) => kind)).toEqual(["paused", "no-worker"]);
    expect(user).toBe("Its queue is paused.");
    await on.hf.cancel(id);
    const [cancelling, leased] = (await on.hf.explain(id)).reasons;
    expect(cancelling?.text).toMatch(/but its worker is not live any more; maintenance cancels it/);
    expect(leased).toMatchObject({ kind: "worker-lost" });
  });

  it("does not call a job lost that drain runs, or a claim holds", async () => {
    const gate = deferred();
    const slow = job({ type: "slow", run: () => gate.promise });
    const on = await scene({ jobs: [slow] });
    const { id } = await on.hf.enqueue(slow);
    const drained = on.hf.drain();
    await on.clock.advance("1s");
    expect(await reasons(on, id)).toEqual([
      expect.stringMatching(
        /^leased: A call of hf\.drain\(\), hf\.runNext\(\) or hf\.claim\(\) \(.+\) runs it: leased until .+Z\.$/,
      ),
    ]);
    await on.hf.cancel(id);
    const [cancelling, leased] = (await on.hf.explain(id)).reasons;
    expect(cancelling?.text).toMatch(/its handler has not stopped yet/);
    expect(leased).toMatchObject({ kind: "leased", change: null });
    gate.resolve();
    await on.clock.advance("1s");
    await drained;
  });

  it("says that a retry has expired, not that it was never claimed", async () => {
    const on = await scene({ jobs: [fragile] });
    const { id } = await on.hf.enqueue(fragile, {}, { expiresAt: on.clock.now() + 1_000 });
    await on.hf.drain();
    await on.clock.advance("2s");
    expect((await on.hf.explain(id)).text).toBe(
      "It expired at 2026-01-01T00:00:01Z, before its next attempt; maintenance dead-letters it.",
    );
  });

  it("says how many jobs a busy worker runs", async () => {
    const gate = deferred();
    const slow = job({ type: "slow", run: () => gate.promise });
    const on = await scene({ jobs: [slow] });
    on.hf.work({ concurrency: 1 });
    await on.hf.enqueueMany(slow, [{}, {}, {}, {}, {}, {}]);
    const { id } = await on.hf.enqueue(slow, {}, { priority: -1 });
    await on.clock.advance("15s");
    const busy = (await on.hf.explain(id)).reasons.find(({ kind }) => kind === "busy");
    expect(busy?.text).toBe("The worker that takes it runs 1 job, as many as allowed.");
    gate.resolve();
    await on.clock.advance("5s");
  });

  it("explains finished jobs, and a key that another job holds", async () => {
    const dies = job({
      type: "dies",
      run: () => {
        throw new NotRetryable("wrong address");
      },
    });
    const on = await scene({ jobs: [mail, dies] });
    const done = await on.hf.enqueue(mail);
    const dead = await on.hf.enqueue(dies, {}, { unique: "only" });
    await on.hf.drain();
    expect(await reasons(on, done.id)).toEqual(["completed: It completed at 2026-01-01T00:00:00Z after 1 attempt."]);
    const { id: holder } = await on.hf.enqueue(mail, {}, { unique: "only", delay: "1h" });
    expect(await reasons(on, dead.id)).toEqual([
      'dead: It has been dead since 2026-01-01T00:00:00Z, after 1 attempt: "wrong address".',
      `key-held: It cannot be retried now: job ${holder} holds its unique key.`,
    ]);
    await on.hf.cancel(holder);
    expect((await on.hf.explain(holder)).reasons[0]).toMatchObject({ kind: "cancelled" });
  });

  it("says that a job has expired", async () => {
    const on = await scene({ jobs: [mail] });
    const { id } = await on.hf.enqueue(mail, {}, { expiresAt: on.clock.now() + 1_000 });
    await on.clock.advance("1s");
    expect((await on.hf.explain(id)).reasons[0]).toMatchObject({ kind: "expired" });
  });

  it("rejects ids without a job, and other users' jobs", async () => {
    const { hf } = await scene({ jobs: [mail] });
    const { id } = await hf.enqueue(mail, {}, { user: "ada" });
    expect(await errorOf(hf.explain("01890000-0000-7000-8000-000000000000"))).toMatchObject({ code: "JOB_NOT_FOUND" });
    expect(await errorOf(hf.forUser("bob").explain(id))).toMatchObject({ code: "JOB_NOT_FOUND" });
    expect(await errorOf(hf.explain("nope"))).toMatchObject({ code: "INVALID_OPTION" });
  });

  it("shows users nothing about workers and operators", async () => {
    const { hf } = await scene({ jobs: [mail] });
    const { id } = await hf.enqueue(mail, {}, { user: "ada" });
    await hf.pause("mail");
    expect(await hf.forUser("ada").explain(id)).toEqual({
      text: "Its queue is paused.",
      reasons: [
        { kind: "paused", text: "Its queue is paused.", change: null, until: null },
        { kind: "no-worker", text: "No worker takes it now.", change: null, until: null },
      ],
    });
  });

  it("shows users nothing about the worker of a cancelled job", async () => {
    const { hf, clock } = await scene({ jobs: [mail] });
    const { id } = await hf.enqueue(mail, {}, { user: "ada" });
    await hf.claim({ limit: 1, lease: "1m" });
    await hf.cancel(id);
    await clock.advance("2m");
    const { reasons: found } = await hf.forUser("ada").explain(id);
    expect(JSON.stringify(found)).not.toMatch(/claim:|maintenance|maintain|heartbeat/);
    expect(found[0]).toMatchObject({ kind: "cancelling" });
  });

  it("makes a bounded number of store calls", async () => {
    const { hf, store } = await scene({ jobs: [mail] });
    await hf.enqueueMany(
      mail,
      Array.from({ length: 2_000 }, () => ({})),
    );
    const { id } = await hf.enqueue(mail, {}, { priority: -5 });
    store.forget();
    expect((await hf.explain(id)).reasons.find(({ kind }) => kind === "ahead")?.text).toMatch(
      /^At least 1,000 due jobs/,
    );
    expect(store.total()).toBeLessThanOrEqual(5);
  });
});
