import { holdfast, NotRetryable, RetryAfter } from "holdfast";
import { mail } from "@holdfast/mail";
import { postmark } from "@holdfast/mail/postmark";
import { describe, expect, it, onTestFinished } from "vitest";
import { context, message } from "./message.js";
import { postmarkServer, type Reply } from "./postmark-server.js";

const INACTIVE = {
  ErrorCode: 406,
  Message:
    "You tried to send to recipient(s) that have been marked as inactive. Found inactive addresses: ada@example.com. Inactive recipients are ones that have generated a hard bounce, a spam complaint, or a manual suppression.",
};

describe("E-05 over Postmark", () => {
  it("sends all fields of a message", async () => {
    const server = await postmarkServer();
    const sent = await server.transport().send(
      message({
        to: [{ name: 'Ada "A" Lovelace', address: "ada@example.com" }],
        cc: [{ name: "", address: "bob@example.com" }],
        bcc: [{ name: "", address: "eve@example.com" }],
        replyTo: [{ name: "", address: "help@club.example" }],
        htmlBody: "<p>Good to see you.</p>",
        tag: "welcome",
        headers: { "List-Unsubscribe": "<https://club.example/u/1>" },
      }),
      context(),
    );
    expect(sent).toEqual({
      id: "pm-1",
      accepted: ["ada@example.com", "bob@example.com", "eve@example.com"],
      rejected: [],
    });
    expect(server.requests).toEqual([
      {
        path: "POST /email",
        token: "server-token",
        email: {
          From: "Club <hello@club.example>",
          To: '"Ada \\"A\\" Lovelace" <ada@example.com>',
          Cc: "bob@example.com",
          Bcc: "eve@example.com",
          ReplyTo: "help@club.example",
          Subject: "Welcome",
          TextBody: "Good to see you.",
          HtmlBody: "<p>Good to see you.</p>",
          Tag: "welcome",
          Headers: [{ Name: "List-Unsubscribe", Value: "<https://club.example/u/1>" }],
          Metadata: { job: "job-1" },
          MessageStream: "outbound",
        },
      },
    ]);
  });

  it("reports inactive recipients of a mail that was sent", async () => {
    const server = await postmarkServer();
    server.reply({
      status: 200,
      body: {
        MessageID: "pm-1",
        ErrorCode: 0,
        Message: "Message OK, but will not deliver to these inactive addresses: bob@example.com.",
      },
    });
    const to = ["ada@example.com", "bob@example.com"].map((address) => ({ name: "", address }));
    const sent = await server.transport({ messageStream: "broadcast" }).send(message({ to }), context());
    expect(sent).toMatchObject({ accepted: ["ada@example.com"], rejected: ["bob@example.com"] });
    expect(server.requests[0]?.email["MessageStream"]).toBe("broadcast");
  });

  it.each<[string, Reply, unknown]>([
    ["an inactive recipient", { status: 422, body: INACTIVE }, NotRetryable],
    ["an invalid request", { status: 422, body: { ErrorCode: 300, Message: "Invalid 'From'" } }, NotRetryable],
    ["a wrong token", { status: 401, body: { ErrorCode: 10, Message: "Bad or missing token" } }, NotRetryable],
    ["another error of the request", { status: 413, body: "too large" }, NotRetryable],
    ["a rate limit with a time", { status: 429, body: {}, headers: { "retry-after": "7" } }, RetryAfter],
    ["a rate limit", { status: 429, body: {} }, Error],
    ["a conflict", { status: 409, body: {} }, Error],
    ["an error of the server", { status: 500, body: { ErrorCode: 0, Message: "Internal" } }, Error],
    ["maintenance", { status: 503, body: "<html>" }, Error],
    ["a lost connection", "disconnect", Error],
  ])("says whether to retry after %s", async (_what, reply, kind) => {
    const server = await postmarkServer();
    server.reply(reply);
    const error = await server
      .transport()
      .send(message(), context())
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(kind);
    if (kind === Error) expect(error).not.toBeInstanceOf(NotRetryable);
    if (error instanceof RetryAfter) expect(error.delay).toBe(7_000);
    expect((error as Error).message).not.toContain("ada@example.com");
  });

  it("ends when its signal is aborted", async () => {
    const server = await postmarkServer();
    server.reply("hang");
    const controller = new AbortController();
    const hung = server.hung();
    const sending = server.transport().send(message(), context(controller.signal));
    sending.catch(() => {});
    await hung;
    controller.abort(new Error("too late"));
    await expect(sending).rejects.toThrow("too late");
  });

  it("a mail whose response was lost is found by its job, and not sent again", async () => {
    const server = await postmarkServer();
    const post = mail({ transport: server.transport({ messageStream: "news" }), from: "hello@club.example" });
    const retry = { backoff: { base: 0, jitter: 0 } };
    const hf = await holdfast({ store: "sqlite::memory:", jobs: post.jobs, retry, logger: false });
    onTestFinished(() => hf.close());
    const send = () =>
      hf.enqueue(post.send, { to: ["ada@example.com", "bob@example.com"], subject: "Hi", textBody: "Hello" });
    const { id } = await send();
    server.reply("lost response");
    await hf.runNext();
    expect((await hf.get(id))?.state).toBe("failed");
    server.reply(null);
    await hf.retry(id);
    await hf.runNext();
    expect((await hf.get(id))?.output).toEqual({
      messageId: "pm-1",
      accepted: ["ada@example.com", "bob@example.com"],
      rejected: [],
    });
    expect(server.requests).toHaveLength(1);
    expect(server.searches).toEqual([{ count: "1", offset: "0", messageStream: "news", metadata_job: id }]);
    // Another job with the same content is another mail; a first attempt does not search.
    await send();
    await hf.runNext();
    expect([server.requests.length, server.searches.length]).toEqual([2, 1]);
  });

  it("a mail that Postmark does not show yet, or whose search is refused, is sent again", async () => {
    const server = await postmarkServer();
    const again = context(undefined, true);
    await server.transport().send(message(), context());
    server.show(false);
    expect((await server.transport().send(message(), again)).id).toBe("pm-2");
    server.reply({ status: 503 });
    await expect(server.transport().send(message(), again)).rejects.not.toBeInstanceOf(NotRetryable);
    expect(server.requests).toHaveLength(2);
    server.reply({ status: 422, body: { ErrorCode: 600, Message: "Unknown filter" } });
    await expect(server.transport().send(message(), again)).rejects.toBeInstanceOf(NotRetryable);
    expect(server.requests).toHaveLength(3);
  });

  it("makes a job dead with Postmark's code, and delivers it later", async () => {
    const server = await postmarkServer();
    const post = mail({ transport: server.transport(), from: "hello@club.example" });
    const hf = await holdfast({ store: "sqlite::memory:", jobs: post.jobs, logger: false });
    onTestFinished(() => hf.close());
    server.reply({ status: 422, body: INACTIVE });
    const { id } = await hf.enqueue(post.send, { to: "ada@example.com", subject: "Hi", textBody: "Hello", tag: "hi" });
    await hf.runNext();
    expect((await hf.get(id))?.error?.message).toContain("Postmark responded 422, error 406");
    server.reply(null);
    await hf.retry(id);
    await hf.runNext();
    expect(await hf.get(id)).toMatchObject({ state: "completed", output: { messageId: "pm-1" } });
    expect(server.requests[1]?.email).toMatchObject({ Tag: "hi", Metadata: { job: id } });
  });

  it.each([
    ["token", { token: " " }],
    ["messageStream", { token: "t", messageStream: "" }],
    ["client", { token: "t", client: "x" }],
    ["stream", { token: "t", stream: "x" }],
  ])("refuses a wrong option %s", (field, options) => {
    expect(() => postmark(options as never)).toThrow(expect.objectContaining({ code: "INVALID_OPTION", field }));
  });
});
