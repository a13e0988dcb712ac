import { type Subscriber } from "@holdfast/mail";
import { NotRetryable } from "holdfast";
import { fakeClock } from "holdfast/testing";
import { beforeEach, expect, it } from "vitest";
import type { PackDatabase } from "../../../holdfast/test/pack/scene.js";
import { deferred, openClient } from "../scene.js";
import { recordStatements } from "../statements.js";
import { CONTENT, countingTransport, EIGHT, everyone, newsScene, NINE, START, subscriber } from "./news-scene.js";

/** Runs on SQLite with `npm test`, and on PostgreSQL with `npm run test:all`. */
export function newsletterTests(open: () => Promise<PackDatabase>): void {
  let given: PackDatabase;
  beforeEach(async () => (given = await open()));

  it("E-06 is sent to its subscribers at its time", async () => {
    const { hf, news, inbox, clock, schedule, reached, job } = await newsScene(given, { countSubscribers: () => 3 });
    const run = await schedule();
    expect(run).toMatchObject({ status: "scheduled", scheduledFor: EIGHT, recipients: null });
    expect(await job(run.jobId)).toMatchObject({
      type: "newsletter.send",
      queue: "newsletter",
      runAt: EIGHT,
      input: { sendRunId: run.id },
    });
    await clock.advance("59m");
    expect(await hf.drain()).toBe(0);
    await clock.advance("1m");
    expect(await hf.drain()).toBe(4);
    expect(reached()).toEqual(everyone(3));
    expect(inbox.mails.find(({ to }) => to.includes("reader1@example.com"))).toMatchObject({
      subject: "Spring",
      text: "Flowers. Unsubscribe: https://club.example/u?id=1&list=spring",
      html: '<p>Flowers. <a href="https://club.example/u?id=1&amp;list=spring">Unsubscribe</a></p>',
      headers: {
        "list-unsubscribe": "<https://club.example/u?id=1&list=spring>",
        "list-unsubscribe-post": "List-Unsubscribe=One-Click",
      },
    });
    expect(await news.run(run.id)).toEqual({
      ...run,
      status: "sent",
      recipients: 3,
      startedAt: EIGHT,
      finishedAt: EIGHT,
      deliveries: { queued: 0, sent: 3, failed: 0, skipped: 0 },
    });
    expect(await job(run.jobId)).toMatchObject({
      output: { enqueued: 3, failed: 0 },
      progress: { fraction: 1, data: { enqueued: 3, failed: 0 } },
    });
  });

  it("E-06 a job of a mail does not have the newsletter", async () => {
    const { hf, clock, schedule } = await newsScene(given);
    const run = await schedule();
    await clock.advance("1h");
    await hf.runNext();
    const { jobs } = await hf.list({ type: "email.send", order: "oldest" });
    expect(jobs[0]).toMatchObject({
      queue: "newsletter",
      parent: run.jobId,
      input: { template: "newsletter", data: { run: run.id, subscriber: "s0", email: "reader0@example.com" } },
    });
    expect(JSON.stringify(jobs)).not.toContain("Flowers");
  });

  it("E-06 a run can be moved, with its job", async () => {
    const { hf, news, clock, schedule, reached } = await newsScene(given);
    const run = await schedule();
    expect(await news.move(hf, run.id, { at: NINE })).toEqual({ ...run, scheduledFor: NINE });
    expect((await hf.list({ type: "newsletter.send" })).jobs).toMatchObject([{ id: run.jobId, runAt: NINE }]);
    await clock.advance("1h");
    expect(await hf.drain()).toBe(0);
    await clock.advance("1h");
    expect(await hf.drain()).toBe(4);
    expect(reached()).toEqual(everyone(3));
  });

  it("E-06 a run can be moved to an earlier time", async () => {
    const { hf, news, schedule, reached } = await newsScene(given);
    const run = await schedule();
    await news.move(hf, run.id, { at: "2026-05-01T06:00:00Z" });
    await hf.drain();
    expect(reached()).toEqual(everyone(3));
  });

  it("E-06 a run that was moved after its job had started waits again", async () => {
    const { hf, news, clock, schedule, reached, job } = await newsScene(given);
    const run = await schedule();
    await given.query("UPDATE newsletter_send_runs SET scheduled_for = ?", ...timesFor(given, NINE));
    await clock.advance("1h");
    expect(await hf.drain()).toBe(1);
    expect((await job(run.jobId)).output).toEqual({
      skipped: true,
      reason: "the send run was moved to 2026-05-01T09:00:00.000Z",
    });
    const moved = await news.run(run.id);
    expect(moved?.jobId).not.toBe(run.jobId);
    expect(await job(moved?.jobId ?? "")).toMatchObject({ state: "pending", runAt: NINE });
    await clock.advance("1h");
    await hf.drain();
    expect(reached()).toEqual(everyone(3));
  });

  it("E-06 a moved run whose job was deleted gets a new job", async () => {
    const { hf, news, schedule, job } = await newsScene(given);
    const run = await schedule();
    await hf.remove(run.jobId);
    const moved = await news.move(hf, run.id, { at: NINE });
    expect(await job(moved.jobId)).toMatchObject({ state: "pending", runAt: NINE });
  });

  it("E-06 a run can be cancelled, with its job", async () => {
    const { hf, news, clock, schedule, inbox, job } = await newsScene(given);
    const run = await schedule();
    expect(await news.cancel(hf, run.id)).toMatchObject({ status: "cancelled", finishedAt: START });
    expect((await job(run.jobId)).state).toBe("cancelled");
    await hf.retry(run.jobId);
    await clock.advance("1h");
    await hf.drain();
    expect((await job(run.jobId)).output).toEqual({ skipped: true, reason: "the send run is cancelled" });
    expect(inbox.mails).toEqual([]);
  });

  it("E-06 only a scheduled run can be moved or cancelled", async () => {
    const { hf, news, clock, schedule } = await newsScene(given);
    const run = await schedule();
    await clock.advance("1h");
    await hf.drain();
    const refused = { code: "SEND_RUN_NOT_SCHEDULED", status: "sent" };
    await expect(news.move(hf, run.id, { at: NINE })).rejects.toMatchObject(refused);
    await expect(news.cancel(hf, run.id)).rejects.toMatchObject(refused);
    await expect(news.cancel(hf, "none")).rejects.toMatchObject({ code: "SEND_RUN_NOT_FOUND" });
    await expect(news.schedule(hf, "none", { at: NINE })).rejects.toMatchObject({ code: "NEWSLETTER_NOT_FOUND" });
    await expect(news.schedule(hf, run.newsletterId, { at: "tomorrow" })).rejects.toMatchObject({ field: "at" });
    expect(await hf.drain()).toBe(0);
  });

  it("E-06 a job without its run is skipped", async () => {
    const { hf, news, job } = await newsScene(given);
    const { id } = await hf.enqueue(news.send, { sendRunId: "none" });
    await hf.drain();
    expect((await job(id)).output).toEqual({ skipped: true, reason: "the send run does not exist" });
  });

  it("E-06 no run is stored if its job cannot be", async () => {
    const { hf, news } = await newsScene(given);
    const { id } = await news.create(CONTENT);
    await hf.close();
    await expect(news.schedule(hf, id, { at: EIGHT })).rejects.toMatchObject({ code: "CLOSED" });
    expect(await news.runs(id)).toEqual([]);
  });

  it("E-06 a run that failed in the middle reaches each subscriber once", async () => {
    const transport = countingTransport();
    let calls = 0;
    async function* subscribers(): AsyncGenerator<Subscriber> {
      const fails = ++calls === 1;
      for (let n = 0; n < 1_200; n++) {
        if (fails && n === 1_100) throw new Error("the list of subscribers is not available");
        yield subscriber(n);
      }
    }
    const { hf, news, clock, schedule } = await newsScene(given, { transport, subscribers });
    const run = await schedule();
    await clock.advance("1h");
    await hf.runNext();
    expect(await news.run(run.id)).toMatchObject({ status: "sending", deliveries: { queued: 1_000 } });
    await clock.advance("1m");
    await hf.drain({ concurrency: 50 });
    expect(new Set(transport.sent).size).toBe(1_200);
    expect(transport.sent).toHaveLength(1_200);
    expect(await news.run(run.id)).toMatchObject({ status: "sent", recipients: 1_200, deliveries: { sent: 1_200 } });
  });

  it("E-06 if the completion of a run was lost, each subscriber gets one mail", async () => {
    const [begun, gate] = [deferred(), deferred()];
    let calls = 0;
    async function* subscribers(): AsyncGenerator<Subscriber> {
      const first = ++calls === 1;
      begun.resolve();
      for (let n = 0; n < 3; n++) yield subscriber(n);
      if (first) await gate.promise;
    }
    const { hf, post, news, clock, schedule, reached } = await newsScene(given, { subscribers });
    const run = await schedule();
    await clock.advance("1h");
    const running = hf.runNext();
    await begun.promise;
    const later = fakeClock(NINE);
    // For this client, the lease of the first one has expired.
    const second = await openClient(given, { jobs: [...post.jobs, ...news.jobs] }, later);
    await second.hf.drain();
    gate.resolve();
    await running;
    await second.hf.drain();
    expect(reached()).toEqual(everyone(3));
    expect(await news.run(run.id)).toMatchObject({ status: "sent", recipients: 3, deliveries: { sent: 3 } });
  });

  it("E-06 if the completion of a mail was lost, it is not sent again", async () => {
    const { hf, news, clock, schedule, reached, job } = await newsScene(given);
    await schedule();
    await clock.advance("1h");
    await hf.drain();
    const [first] = (await hf.list({ type: "email.send" })).jobs;
    const again = await hf.enqueueNamed("email.send", first?.input);
    await hf.drain();
    expect(again.id).not.toBe(first?.id);
    expect((await job(again.id)).output).toEqual({
      skipped: true,
      reason: "the mail was sent by an earlier attempt",
    });
    expect(reached()).toEqual(everyone(3));
    expect((await news.list()).length).toBe(1);
  });

  it("E-06 subscribers that no mail can reach are counted as failed", async () => {
    const readers = [
      subscriber(0),
      { ...subscriber(1), email: "not an address" },
      { ...subscriber(2), unsubscribeUrl: "javascript:alert(1)" },
      { ...subscriber(3), unsubscribeUrl: "https://club.example/\r\nBcc: eve@example.com" },
      subscriber(4),
      subscriber(0),
    ];
    const { hf, news, inbox, clock, schedule, reached } = await newsScene(given, { subscribers: () => readers });
    inbox.refuse("reader4@example.com");
    const run = await schedule();
    await clock.advance("1h");
    await hf.drain();
    expect(reached()).toEqual(["reader0@example.com"]);
    expect(await news.run(run.id)).toMatchObject({ recipients: 5, deliveries: { queued: 0, sent: 1, failed: 4 } });

    inbox.recover();
    expect(await hf.retry({ queue: "newsletter", state: "dead" })).toBe(1);
    await hf.drain();
    expect(await news.run(run.id)).toMatchObject({ deliveries: { sent: 2, failed: 3 } });
  });

  it("E-06 a mail that the application cannot write is counted as failed, and sent by a retry", async () => {
    let isBroken = true;
    const sent: string[] = [];
    const { hf, news, clock, schedule, reached } = await newsScene(given, {
      message: ({ subject }, { id }) => {
        if (isBroken && id === "s1") throw new NotRetryable("a field is missing");
        return { subject, textBody: id, onSent: () => void sent.push(id) };
      },
    });
    const run = await schedule();
    await clock.advance("1h");
    await hf.drain();
    expect((await news.run(run.id))?.deliveries).toEqual({ queued: 0, sent: 2, failed: 1, skipped: 0 });
    isBroken = false;
    expect(await hf.retry({ queue: "newsletter", state: "dead" })).toBe(1);
    await hf.drain();
    expect(reached()).toEqual(everyone(3));
    expect((await news.run(run.id))?.deliveries).toEqual({ queued: 0, sent: 3, failed: 0, skipped: 0 });
    expect(sent.toSorted()).toEqual(["s0", "s1", "s2"]);
  });

  it("E-06 the URL in List-Unsubscribe is ASCII, and fits into a line", async () => {
    const readers = [
      { ...subscriber(0), unsubscribeUrl: "https://club.example/für%20immer" },
      { ...subscriber(1), unsubscribeUrl: `https://club.example/${"ü".repeat(200)}` },
    ];
    const { hf, news, inbox, clock, schedule } = await newsScene(given, { subscribers: () => readers });
    const run = await schedule();
    await clock.advance("1h");
    await hf.drain();
    expect((await news.run(run.id))?.deliveries).toMatchObject({ sent: 1, failed: 1 });
    expect(inbox.mails[0]?.raw).toMatch(/^List-Unsubscribe:\s+<https:\/\/club\.example\/f%C3%BCr%20immer>\r$/m);
    expect(inbox.mails[0]?.text).toContain("https://club.example/für%20immer");
  });

  it("E-06 mails of other queues go first", async () => {
    const { hf, post, inbox, clock, schedule } = await newsScene(given);
    await schedule();
    await clock.advance("1h");
    await hf.runNext();
    await clock.advance("1m");
    await hf.enqueue(post.send, { to: "ada@example.com", subject: "Reset your password", textBody: "…" });
    await hf.drain({ concurrency: 1 });
    expect(inbox.mails[0]?.subject).toBe("Reset your password");
    expect(inbox.mails).toHaveLength(4);
  });

  it("E-06 the application may write each mail, or skip it", async () => {
    const { hf, clock, news, schedule, inbox } = await newsScene(given, {
      from: "News <news@club.example>",
      message: ({ subject }, { id, unsubscribeUrl }, { signal }) => {
        signal.throwIfAborted();
        return id === "s1" ? { skip: "unsubscribed" } : { subject: `${subject} for ${id}`, htmlBody: unsubscribeUrl };
      },
    });
    const { id: run } = await schedule();
    await clock.advance("1h");
    await hf.drain();
    expect(await news.run(run)).toMatchObject({ recipients: 3, deliveries: { queued: 0, sent: 2, skipped: 1 } });
    const shown = inbox.mails.map(({ subject, from }) => `${subject} ${from}`).toSorted();
    expect(shown).toEqual(["Spring for s0 news@club.example", "Spring for s2 news@club.example"]);
  });

  it("E-06 newsletters are stored, listed and changed until they are sent", async () => {
    const { hf, news, clock } = await newsScene(given);
    const first = await news.create({ subject: "First", textBody: "1" });
    await clock.advance("1m");
    const second = await news.create({ subject: "Second", htmlBody: "2" });
    expect(await news.get(first.id)).toEqual(first);
    expect(await news.list()).toEqual([second, first]);
    await news.update(first.id, { subject: "Changed", htmlBody: "<p>1</p>" });
    expect(await news.get(first.id)).toEqual({ ...first, subject: "Changed", textBody: null, htmlBody: "<p>1</p>" });
    const run = await news.schedule(hf, first.id, { at: clock.now() });
    await hf.drain();
    expect(await news.runs(first.id)).toEqual([await news.run(run.id)]);
    await expect(news.update(first.id, CONTENT)).rejects.toMatchObject({ code: "NEWSLETTER_SENT" });
    await expect(news.update("none", CONTENT)).rejects.toMatchObject({ code: "NEWSLETTER_NOT_FOUND" });
    await expect(news.create({ subject: "Empty" })).rejects.toMatchObject({ code: "INVALID_OPTION" });
    await expect(news.create({ subject: "a\nb", textBody: "1" })).rejects.toThrow("subject must be one line");
    expect(await news.get("none")).toBeNull();
    expect(await news.run("none")).toBeNull();
  });

  it("E-06 the runs of a newsletter are listed with their counts", async () => {
    const { db, take } = recordStatements(given);
    const { hf, news, clock, schedule } = await newsScene(given, { db });
    const { id: sent, newsletterId } = await schedule();
    const { id: cancelled } = await news.schedule(hf, newsletterId, { at: NINE });
    await news.cancel(hf, cancelled);
    const other = await schedule();
    await clock.advance("1h");
    await hf.drain();
    const { id: queued } = await news.schedule(hf, newsletterId, { at: clock.now() + 1 });
    await clock.advance(1);
    await hf.runNext();

    take();
    const runs = await news.runs(newsletterId);
    expect(take().filter((statement) => statement.includes("newsletter_"))).toHaveLength(2);
    const none = { queued: 0, sent: 0, failed: 0, skipped: 0 };
    expect(runs.map(({ id, status, deliveries }) => [id, status, deliveries])).toEqual([
      [cancelled, "cancelled", none],
      [queued, "sent", { ...none, queued: 3 }],
      [sent, "sent", { ...none, sent: 3 }],
    ]);
    expect(runs).toEqual(await Promise.all(runs.map(({ id }) => news.run(id))));
    expect((await news.runs(other.newsletterId)).map(({ id }) => id)).toEqual([other.id]);
    expect(await news.runs("none")).toEqual([]);
  });

  it("E-06 mails whose job was cancelled, deleted or lost with its worker are counted as failed", async () => {
    const { hf, news, schedule, clock } = await newsScene(given, { readers: 250 });
    const run = await schedule();
    await clock.advance("1h");
    // The run; its mails wait.
    await hf.runNext();
    const { jobs } = await hf.list({ type: "email.send", limit: 5 });
    const [cancelled, removed, lost, completed, skipped] = jobs.map(({ id }) => id);
    await hf.cancel(cancelled!);
    await hf.remove(removed!);
    // Its last lease expires.
    await hf.update(lost!, { maxAttempts: 1, priority: 10 });
    const [lease] = await hf.claim({ lease: "1m" });
    expect(lease?.id).toBe(lost);
    await lease?.start();
    // Completed without the handler of the pack.
    for (const [id, output] of [
      [completed, { messageId: "m", accepted: ["a"], rejected: [] }],
      [skipped, { skipped: true, reason: "no" }],
    ] as const) {
      await hf.update(id!, { priority: 10 });
      const [claimed] = await hf.claim();
      expect(claimed?.id).toBe(id);
      await claimed?.start();
      await claimed?.complete(output);
    }
    await clock.advance("2m");
    await hf.reapExpiredLeases();
    expect((await news.run(run.id))?.deliveries).toEqual({ queued: 250, sent: 0, failed: 0, skipped: 0 });
    expect(await news.reconcile(hf, run.id)).toBe(5);
    expect(await news.reconcile(hf, run.id)).toBe(0);
    expect((await news.run(run.id))?.deliveries).toEqual({ queued: 245, sent: 1, failed: 3, skipped: 1 });
    // A retry that succeeds counts as sent.
    await hf.retry(cancelled!);
    await hf.drain();
    expect((await news.run(run.id))?.deliveries).toEqual({ queued: 0, sent: 247, failed: 2, skipped: 1 });
    await expect(news.reconcile(hf, "unknown")).rejects.toMatchObject({ code: "SEND_RUN_NOT_FOUND" });
  });

  it("E-06 a due run without a job is dispatched", async () => {
    const { hf, news, clock, schedule, reached, job } = await newsScene(given);
    const run = await schedule();
    const other = await schedule(NINE);
    await hf.remove(run.jobId);
    expect(await news.dispatchDue(hf)).toEqual([]);
    await clock.advance("1h");
    const due = { id: run.id, newsletterId: run.newsletterId, scheduledFor: EIGHT, status: "scheduled" };
    expect(await news.dispatchDue(hf, { dryRun: true })).toEqual([{ ...due, jobId: null }]);
    expect(await hf.drain()).toBe(0);

    const [dispatched, ...others] = await news.dispatchDue(hf);
    expect(dispatched).toMatchObject(due);
    expect(others).toEqual([]);
    expect((await job(dispatched?.jobId ?? "")).state).toBe("pending");
    expect(await news.dispatchDue(hf)).toEqual([]);
    await hf.drain();
    expect(reached()).toEqual(everyone(3));
    expect(await news.run(other.id)).toMatchObject({ status: "scheduled" });
  });

  it("E-06 a run whose job is dead is continued", async () => {
    let works = false;
    const { hf, news, clock, schedule, reached, job } = await newsScene(given, {
      subscribers: () => [subscriber(0), works ? subscriber(1) : ({ email: "x" } as Subscriber)],
    });
    const run = await schedule();
    await clock.advance("1h");
    await hf.drain();
    expect((await job(run.jobId)).state).toBe("dead");
    works = true;
    expect(await news.dispatchDue(hf)).toMatchObject([{ id: run.id, status: "sending" }]);
    await hf.drain();
    expect(reached()).toEqual(everyone(2));
    expect((await news.run(run.id))?.status).toBe("sent");
  });
}

/** A time as the statement of a test needs it. */
function timesFor(given: PackDatabase, time: Date): unknown[] {
  return [given.dialect === "sqlite" ? time.getTime() : time];
}
