import type { MailTransport } from "@holdfast/mail";
import { smtp } from "@holdfast/mail/smtp";
import { smtpInbox, type SmtpInbox } from "@holdfast/mail/testing";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { openInbox } from "./scene.js";
import { context, message } from "./transports/message.js";

describe("an SMTP inbox", () => {
  let inbox: SmtpInbox;
  let transport: MailTransport;
  beforeEach(async () => {
    inbox = await openInbox();
    transport = smtp(inbox.url);
    onTestFinished(() => transport.close?.());
  });
  const send = (subject: string) => transport.send(message({ subject }), context());

  it("returns each mail once, and waits for the next", async () => {
    await send("one");
    await send("two");
    expect((await inbox.next(({ subject }) => subject === "two")).subject).toBe("two");
    expect((await inbox.next()).subject).toBe("one");
    const next = inbox.next();
    await send("three");
    expect((await next).subject).toBe("three");
    expect(inbox.mails).toHaveLength(3);
  });

  it("gives waiting calls different mails", async () => {
    const both = Promise.all([inbox.next(), inbox.next()]);
    await send("one");
    await send("two");
    expect((await both).map(({ subject }) => subject)).toEqual(["one", "two"]);
  });

  it("reports that no mail arrived", async () => {
    await send("one");
    const none = inbox.next(() => false, { timeout: 10 });
    await expect(none).rejects.toMatchObject({ code: "WAIT_TIMEOUT", message: expect.stringContaining("1 mails") });
    await expect(inbox.hung(1, { timeout: 10 })).rejects.toMatchObject({ code: "WAIT_TIMEOUT" });
  });

  it("fails a number of times", async () => {
    inbox.fail(451, { times: 1 });
    await expect(send("one")).rejects.toThrow("451");
    await send("two");
    expect(inbox.mails.map(({ subject }) => subject)).toEqual(["two"]);
  });

  it("hangs after a number of mails, until it recovers", async () => {
    inbox.hang({ after: 1 });
    await send("one");
    const second = send("two");
    second.catch(() => {});
    await inbox.hung(1);
    expect(inbox.hanging).toBe(1);
    inbox.recover();
    await expect(second).rejects.toThrow("451");
    expect(inbox.hanging).toBe(0);
    await send("three");
    expect(inbox.mails).toHaveLength(2);
  });

  it("closes with a mail that hangs", async () => {
    const own = await smtpInbox();
    const other = smtp(own.url);
    own.hang();
    const sending = other.send(message(), context());
    sending.catch(() => {});
    await own.hung(1);
    await own.close();
    await expect(sending).rejects.toThrow("mail server");
    await other.close?.();
  });
});
