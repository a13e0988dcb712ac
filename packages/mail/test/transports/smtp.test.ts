import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { NotRetryable } from "holdfast";
import type { Address, MailTransport } from "@holdfast/mail";
import { smtp } from "@holdfast/mail/smtp";
import type { SmtpInbox } from "@holdfast/mail/testing";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { openInbox } from "../scene.js";
import { context, message } from "./message.js";

const ADA: Address = { name: "Lovelace, Ada", address: "ada@example.com" };
const BOB: Address = { name: "", address: "bob@example.com" };

describe("E-05 over SMTP", () => {
  let inbox: SmtpInbox;
  let transport: MailTransport;
  beforeEach(async () => {
    inbox = await openInbox();
    transport = smtp(inbox.url);
    onTestFinished(() => transport.close?.());
  });
  const failure = async (more: Parameters<typeof message>[0] = {}): Promise<Error & { responseCode?: number }> =>
    transport.send(message(more), context()).then(
      () => {
        throw new Error("it was sent");
      },
      (error: Error) => error,
    );

  it("keeps names, Unicode and many recipients", async () => {
    const sent = await transport.send(
      message({ to: [ADA, BOB], cc: [{ name: "Zoë", address: "zoe@example.com" }], subject: "Grüße 🎈" }),
      context(),
    );
    expect(sent).toEqual({
      id: "<key-1@club.example>",
      accepted: ["ada@example.com", "bob@example.com", "zoe@example.com"],
      rejected: [],
    });
    const received = await inbox.next();
    expect(received.subject).toBe("Grüße 🎈");
    expect(received.headers["to"]).toBe('"Lovelace, Ada" <ada@example.com>, bob@example.com');
  });

  it("is retried after a temporary refusal", async () => {
    inbox.fail(451);
    const error = await failure();
    expect(error).not.toBeInstanceOf(NotRetryable);
    expect(error).toMatchObject({ code: "EMESSAGE", responseCode: 451 });
  });

  it("is not retried after a permanent refusal", async () => {
    inbox.fail(554);
    const error = await failure();
    expect(error).toBeInstanceOf(NotRetryable);
    expect(error.message).toBe("the mail server responded after DATA: 554 the test inbox fails");
  });

  it("reports the recipients that were refused", async () => {
    inbox.refuse("ada@example.com");
    const sent = await transport.send(message({ to: [ADA, BOB] }), context());
    expect(sent).toMatchObject({ accepted: ["bob@example.com"], rejected: ["ada@example.com"] });
    expect((await inbox.next()).to).toEqual(["bob@example.com"]);
  });

  it("is not retried if all recipients are refused for good", async () => {
    inbox.refuse("ada@example.com");
    inbox.refuse("bob@example.com", 553);
    const error = await failure({ to: [ADA, BOB] });
    expect(error).toBeInstanceOf(NotRetryable);
    expect(error.message).toContain("553");
    expect(error.message).not.toContain("example.com");
    expect(JSON.stringify(Object.entries(error))).not.toContain("example.com");
  });

  it("is retried if one recipient is refused for now", async () => {
    inbox.refuse("ada@example.com");
    inbox.refuse("bob@example.com", 450);
    expect(await failure({ to: [ADA, BOB] })).not.toBeInstanceOf(NotRetryable);
    expect(inbox.mails).toEqual([]);
  });

  it("a retry sends it to those who were deferred, and not again to the others", async () => {
    const ZOE = { name: "", address: "zoe@example.com" };
    const mail = message({ to: [ADA, BOB], cc: [ZOE] });
    inbox.refuse("bob@example.com", 450);
    inbox.refuse("zoe@example.com", 550);
    for (let attempt = 1; attempt <= 2; attempt++) {
      const error = await transport.send(mail, context()).catch((thrown: unknown) => thrown);
      expect(error).not.toBeInstanceOf(NotRetryable);
      expect(error).toMatchObject({
        responseCode: 450,
        message: "the mail server responded after RCPT TO: 450 5.1.1 <[address]> recipient refused",
      });
    }
    inbox.recover();
    expect(await transport.send(mail, context())).toEqual({
      id: "<key-1@club.example>",
      accepted: ["ada@example.com", "bob@example.com"],
      rejected: ["zoe@example.com"],
    });
    expect(inbox.mails.map(({ to }) => to)).toEqual([["ada@example.com"], ["bob@example.com"]]);
    // It was sent: another job, or a rerun with this key, sends to everyone.
    await transport.send(mail, context());
    expect(inbox.mails.at(-1)?.to).toHaveLength(3);
  });

  it("is completed if those who were deferred are refused for good later", async () => {
    inbox.refuse("bob@example.com", 450);
    await failure({ to: [ADA, BOB] });
    inbox.refuse("bob@example.com", 550);
    expect(await transport.send(message({ to: [ADA, BOB] }), context())).toMatchObject({
      accepted: ["ada@example.com"],
      rejected: ["bob@example.com"],
    });
    expect(inbox.mails).toHaveLength(1);
  });

  it("is not completed if the server refuses the login, or the message, of a retry", async () => {
    const server = await smtpServer();
    const own = smtp({ url: server.url, nodemailer: { maxMessages: 1 } });
    onTestFinished(() => own.close?.());
    const send = () => own.send(message({ to: [ADA, BOB] }), context()).catch((error: unknown) => error as Error);
    server.respondTo("RCPT TO:<bob", "450 4.2.0 greylisted");
    expect(await send()).toMatchObject({ responseCode: 450 });
    server.respondTo("RCPT TO:<bob", "250 ok");
    for (const [command, response] of [
      ["AUTH", "535 5.7.8 wrong password"],
      ["MAIL FROM", "550 5.1.8 sender refused"],
      ["DATA", "554 5.6.0 refused"],
    ] as const) {
      const accepted = server.respondTo(command, response);
      const error = await send();
      expect(error).toBeInstanceOf(NotRetryable);
      expect((error as Error).message).toContain(response);
      server.respondTo(command, accepted);
    }
    // After a manual retry, to the recipient who was deferred.
    expect(await send()).toMatchObject({ accepted: ["ada@example.com", "bob@example.com"], rejected: [] });
    expect(server.recipients).toEqual([["ada@example.com"], ["bob@example.com"]]);
  });

  it("ends when its signal is aborted, and is not sent later", async () => {
    inbox.hang();
    const controller = new AbortController();
    const sending = transport.send(message(), context(controller.signal));
    await inbox.hung(1);
    controller.abort(new Error("too late"));
    await expect(sending).rejects.toThrow("too late");
    await expect(transport.send(message(), context(controller.signal))).rejects.toThrow("too late");
    inbox.recover();
    await transport.send(message({ subject: "Second" }), context());
    expect(inbox.mails.map(({ subject }) => subject)).toEqual(["Second"]);
  });

  it("shares a few connections", async () => {
    await Promise.all(
      Array.from({ length: 30 }, (_, n) => transport.send(message({ subject: `Mail ${n}` }), context())),
    );
    expect(new Set(inbox.mails.map(({ subject }) => subject)).size).toBe(30);
  });

  it("logs in", async () => {
    const secure = smtp(inbox.url.replace("//", "//user%40club:p%2Fw@"));
    onTestFinished(() => secure.close?.());
    await secure.send(message(), context());
    expect(inbox.mails).toHaveLength(1);
  });

  it("is retried if no server responds", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, "close");
    transport = smtp(`smtp://127.0.0.1:${port}`);
    const error = await failure();
    expect(error).not.toBeInstanceOf(NotRetryable);
    expect(error.message).toBe("the mail server could not be used: ECONNREFUSED");
    expect(error).toMatchObject({ code: "ECONNREFUSED" });
  });

  it("is retried if the connection ends", async () => {
    const server = createServer((socket) => void socket.end("220 hello\r\n")).listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    transport = smtp({
      url: `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`,
      nodemailer: { maxRequeues: 0 },
    });
    onTestFinished(() => transport.close?.());
    expect(await failure()).not.toBeInstanceOf(NotRetryable);
  });
});

describe("smtp()", () => {
  it.each([
    ["url", "https://mail.example"],
    ["url", "mail.example:25"],
    ["url", "smtp://mail.example?pool=true"],
    ["url", undefined],
    ["maxConnections", { url: "smtp://mail.example", maxConnections: 0 }],
    ["tagHeader", { url: "smtp://mail.example", tagHeader: "a\nb" }],
    ["host", { host: "mail.example" }],
  ])("refuses a wrong option %s", (field, options) => {
    expect(() => smtp(options as never)).toThrow(expect.objectContaining({ code: "INVALID_OPTION", field }));
  });

  it("does not show the password of a wrong URL", () => {
    expect(() => smtp("http://user:secret@mail.example")).toThrow(/^(?!.*secret)/);
  });
});

/** A server that responds to each command as `respondTo` says. */
async function smtpServer(): Promise<{
  url: string;
  /** The recipients of each mail that was accepted. */
  recipients: string[][];
  /** Sets the response to commands that begin with this, and returns the one before. */
  respondTo: (command: string, response: string) => string;
}> {
  const responses = new Map([
    ["EHLO", "250-localhost\r\n250 AUTH PLAIN"],
    ["AUTH", "235 welcome"],
    ["DATA", "354 go on"],
    ["QUIT", "221 bye"],
  ]);
  const recipients: string[][] = [];
  const server = createServer((socket) => {
    let accepted: string[] = [];
    let isBody = false;
    socket.on("error", () => {});
    socket.write("220 localhost\r\n");
    createInterface({ input: socket }).on("line", (line) => {
      if (isBody && line !== ".") return;
      const [, response = "250 ok"] = [...responses].find(([command]) => line.startsWith(command)) ?? [];
      const recipient = /^RCPT TO:<([^>]+)>/.exec(line)?.[1];
      if (line.startsWith("MAIL FROM")) accepted = [];
      if (recipient !== undefined && response.startsWith("2")) accepted.push(recipient);
      if (isBody) recipients.push(accepted);
      isBody = response.startsWith("354");
      socket.write(`${response}\r\n`);
    });
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  return {
    url: `smtp://user:password@127.0.0.1:${(server.address() as AddressInfo).port}`,
    recipients,
    respondTo(command, response) {
      const before = responses.get(command) ?? "250 ok";
      responses.set(command, response);
      return before;
    },
  };
}
