import { mail } from "@holdfast/mail";
import { smtp } from "@holdfast/mail/smtp";
import type { SmtpInbox } from "@holdfast/mail/testing";
import { fakeClock } from "holdfast/testing";
import { beforeEach, expect, it, onTestFinished } from "vitest";
import { describeDatabases, type PackDatabase } from "../../../holdfast/test/pack/scene.js";
import { deferred, openClient, openInbox, type Client } from "../scene.js";

const WELCOME = { to: "ada@example.com", subject: "Welcome", textBody: "Good to see you." };

describeDatabases((open) => {
  let given: PackDatabase;
  let inbox: SmtpInbox;
  let scene: Client & { post: ReturnType<typeof newMail> };
  const newMail = () => {
    const post = mail({ transport: smtp(inbox.url), from: "Club <hello@club.example>" });
    onTestFinished(() => post.close());
    return post;
  };
  beforeEach(async () => {
    given = await open();
    inbox = await openInbox();
    const post = newMail();
    scene = { post, ...(await openClient(given, { jobs: post.jobs })) };
    await post.install(scene.hf);
  });

  it("E-05 hands a mail to the SMTP server", async () => {
    const { hf, post, job } = scene;
    const { id } = await hf.enqueue(post.send, {
      ...WELCOME,
      to: ["ada@example.com", "Bob <bob@example.com>"],
      htmlBody: "<p>Good to see you.</p>",
      bcc: "eve@example.com",
      replyTo: "help@club.example",
      tag: "welcome",
      headers: { "X-Campaign": "spring" },
    });
    expect(await hf.runNext()).toBe(true);
    const received = await inbox.next();
    expect(received).toMatchObject({
      from: "hello@club.example",
      to: ["ada@example.com", "bob@example.com", "eve@example.com"],
      subject: "Welcome",
      text: "Good to see you.",
      html: "<p>Good to see you.</p>",
      messageId: `<${id}@club.example>`,
    });
    expect(received.headers).toMatchObject({
      from: "Club <hello@club.example>",
      "reply-to": "help@club.example",
      "x-tag": "welcome",
      "x-campaign": "spring",
      "x-holdfast-job": id,
    });
    expect(received.raw).not.toContain("eve@example.com");
    expect(await job(id)).toMatchObject({
      state: "completed",
      queue: "mail",
      output: { messageId: `<${id}@club.example>`, accepted: received.to, rejected: [] },
    });
  });

  it("E-05 retries after 30, 60 and 120 s, then is dead; a retry delivers", async () => {
    const { hf, post, clock, lines, job } = scene;
    inbox.fail(451);
    const { id } = await hf.enqueue(post.send, WELCOME);
    for (const [index, seconds] of [30, 60, 120].entries()) {
      expect(await hf.runNext()).toBe(true);
      expect(await job(id)).toMatchObject({ state: "failed", attempt: index + 1 });
      await clock.advance(seconds * 1_000 - 1);
      expect(await hf.runNext()).toBe(false);
      await clock.advance(1);
    }
    expect(await hf.runNext()).toBe(true);
    expect(await job(id)).toMatchObject({ state: "dead", attempt: 4 });
    expect(lines.filter(({ level }) => level === "error")).toHaveLength(1);
    expect(inbox.mails).toHaveLength(0);

    inbox.recover();
    expect(await hf.retry(id)).toBe("retried");
    expect(await hf.runNext()).toBe(true);
    expect((await job(id)).state).toBe("completed");
    expect(inbox.mails.map(({ messageId }) => messageId)).toEqual([`<${id}@club.example>`]);
  });

  it("E-05 aborts a mail to a server that hangs", async () => {
    const { hf, post, clock, job } = scene;
    inbox.hang();
    const { id } = await hf.enqueue(post.send, WELCOME);
    const running = hf.runNext();
    await inbox.hung(1);
    await clock.advance("1m");
    expect(await running).toBe(true);
    expect(await job(id)).toMatchObject({ state: "failed", error: { code: "JOB_TIMEOUT" } });
    inbox.recover();
    await clock.advance("30s");
    await hf.runNext();
    expect((await job(id)).state).toBe("completed");
    expect(inbox.mails).toHaveLength(1);
  });

  it("E-05 sends again if the completion was lost, with the same Message-ID", async () => {
    const inner = smtp(inbox.url);
    const gate = deferred();
    let sends = 0;
    const post = mail({
      transport: {
        async send(...args) {
          const sent = await inner.send(...args);
          if (++sends === 1) await gate.promise;
          return sent;
        },
      },
      from: "hello@club.example",
      prefix: "slow.",
    });
    onTestFinished(() => inner.close?.());
    const first = await openClient(given, { jobs: post.jobs });
    // For this client, the lease of the first one has expired.
    const second = await openClient(given, { jobs: post.jobs }, fakeClock(first.clock.now() + 3_600_000));
    const { id } = await first.hf.enqueue(post.send, WELCOME);
    const running = first.hf.runNext();
    await inbox.next();
    expect(await second.hf.runNext()).toBe(true);
    gate.resolve();
    await running;
    expect(await second.job(id)).toMatchObject({ state: "completed", fence: 2 });
    expect(inbox.mails.map(({ messageId }) => messageId)).toEqual(Array(2).fill(`<${id}@club.example>`));
  });
});
