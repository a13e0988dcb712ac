import { holdfast, InvalidInputError, type Holdfast } from "holdfast";
import { mail, type MailTransport, type OutgoingMessage } from "@holdfast/mail";
import { describe, expect, it, onTestFinished } from "vitest";

const templates = {
  welcome: ({ name }: { name: string }) => ({ subject: `Welcome, ${name}`, textBody: "Good to see you." }),
  report: async () => ({ to: "ops@club.example", subject: "Report", textBody: "All is well." }),
  gone: (_data: { user: string }) => ({ skip: "the user was deleted" }),
  wrong: () => ({ to: "ops@club.example", subject: "two\nlines", textBody: "secret" }),
  dated: ({ at }: { at: Date }) => ({ subject: "Late", textBody: String(at), to: "ada@example.com" }),
};

function collecting(): MailTransport & { messages: OutgoingMessage[]; rejected: string[] } {
  const messages: OutgoingMessage[] = [];
  const rejected: string[] = [];
  return {
    messages,
    rejected,
    async send(message, { idempotencyKey }) {
      messages.push(message);
      const accepted = message.to.map(({ address }) => address).filter((address) => !rejected.includes(address));
      return { id: idempotencyKey, accepted, rejected };
    },
  };
}

async function scene() {
  const transport = collecting();
  const post = mail({ transport, from: "Club <hello@club.example>", templates });
  const hf = await holdfast({ store: "sqlite::memory:", jobs: post.jobs, logger: false });
  onTestFinished(() => hf.close());
  const run = async (id: string) => {
    await hf.runNext();
    return hf.get(id);
  };
  return { transport, post, hf, run };
}

async function issuesOf(hf: Holdfast, input: unknown): Promise<string> {
  const error = await hf.enqueueNamed("email.send", input).then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (error instanceof InvalidInputError) return error.message;
  throw new Error("the input was accepted");
}

it("E-05 a transport that returns no result is not called again", async () => {
  let sends = 0;
  const send = (async () => void sends++) as unknown as MailTransport["send"];
  const post = mail({ transport: { send }, from: "hello@club.example" });
  const hf = await holdfast({ store: "sqlite::memory:", jobs: post.jobs, logger: false });
  onTestFinished(() => hf.close());
  const { id } = await hf.enqueue(post.send, { to: "ada@example.com", subject: "Hi", textBody: "Hello" });
  await hf.drain();
  expect(await hf.get(id)).toMatchObject({
    state: "dead",
    attempt: 1,
    error: { message: expect.stringContaining("did not return { id, accepted, rejected }") as string },
  });
  expect(sends).toBe(1);
});

describe("a message", () => {
  const good = { to: "ada@example.com", subject: "Hi", textBody: "Hello" };

  it.each([
    ["to is missing", { ...good, to: undefined }],
    ["subject is missing", { to: "ada@example.com", textBody: "Hello" }],
    ["needs textBody, htmlBody, or both", { to: "ada@example.com", subject: "Hi" }],
    ["textBody must not be empty", { ...good, textBody: "" }],
    ["subject must be one line", { ...good, subject: "Hi\r\nBcc: eve@example.com" }],
    ["to must be an address", { ...good, to: "ada" }],
    ["to must be an address", { ...good, to: "ada@example.com\r\nBcc: eve@example.com" }],
    ["to must be an address", { ...good, to: "ada@example.com, bob@example.com" }],
    ["to must be an address", { ...good, to: "ada@example.com, Bob <bob@example.com>" }],
    ["to.1 must be an address", { ...good, to: ["ada@example.com", "ada@exa mple.com"] }],
    ["to must not be empty", { ...good, to: [] }],
    ["51 addresses; the limit is 50", { ...good, cc: Array.from({ length: 50 }, (_, n) => `u${n}@example.com`) }],
    ["from must be an address", { ...good, from: "Ada <ada@@example.com>" }],
    ["replyTo must be an address", { ...good, replyTo: "<>" }],
    ["headers.X-A must be one line", { ...good, headers: { "X-A": "1\nBcc: eve@example.com" } }],
    ["headers.X A is not a name of a header", { ...good, headers: { "X A": "1" } }],
    ["headers.bcc must not be set as a header", { ...good, headers: { bcc: "eve@example.com" } }],
    ["headers.Content-Type must not be set", { ...good, headers: { "Content-Type": "text/plain" } }],
    ["tag must be one line", { ...good, tag: "a\u0085b" }],
    ["data needs a template", { ...good, data: {} }],
    ['"welcom" is not a template of this process; known: welcome', { to: "ada@example.com", template: "welcom" }],
    ["textBody must not be given with a template", { ...good, subject: undefined, template: "welcome" }],
    ['Unrecognized key: "body"', { ...good, body: "Hello" }],
  ])("E-05 is refused at enqueue: %s", async (problem, input) => {
    const { hf } = await scene();
    expect(await issuesOf(hf, input)).toContain(problem);
    expect((await hf.stats()).states.pending).toBe(0);
  });

  it.each([
    ["ada@example.com", { name: "", address: "ada@example.com" }],
    ["Ada Lovelace <ada@example.com>", { name: "Ada Lovelace", address: "ada@example.com" }],
    ['"Lovelace, Ada \\"A\\"" <ada@example.com>', { name: 'Lovelace, Ada "A"', address: "ada@example.com" }],
    ["Zoë <zoë@bücher.example>", { name: "Zoë", address: "zoë@bücher.example" }],
    ["ada+club@localhost", { name: "", address: "ada+club@localhost" }],
  ])("E-05 may be addressed to %s", async (to, address) => {
    const { transport, post, hf } = await scene();
    await hf.enqueue(post.send, { to, subject: "Hi", htmlBody: "<p>Hello</p>" });
    await hf.drain();
    expect(transport.messages).toMatchObject([{ to: [address], textBody: null, from: { name: "Club" } }]);
  });

  it("E-05 fails for good if all recipients were refused", async () => {
    const { transport, post, hf, run } = await scene();
    transport.rejected.push("ada@example.com");
    const { id } = await hf.enqueue(post.send, good);
    expect(await run(id)).toMatchObject({ state: "dead", attempt: 1, error: { code: "NOT_RETRYABLE" } });
  });
});

describe("a template", () => {
  it("E-05 builds the mail when the job runs", async () => {
    const { transport, post, hf, run } = await scene();
    const { id } = await hf.enqueue(post.send, {
      template: "welcome",
      data: { name: "Ada" },
      to: "ada@example.com",
      tag: "welcome",
    });
    expect(await run(id)).toMatchObject({
      state: "completed",
      input: { template: "welcome", data: { name: "Ada" }, to: "ada@example.com", tag: "welcome" },
    });
    expect(transport.messages).toMatchObject([{ subject: "Welcome, Ada", tag: "welcome" }]);
  });

  it("E-05 may name the recipients", async () => {
    const { transport, post, hf } = await scene();
    await hf.enqueue(post.send, { template: "report" });
    await hf.drain();
    expect(transport.messages).toMatchObject([{ to: [{ address: "ops@club.example" }] }]);
  });

  it("E-05 may have nothing to send", async () => {
    const { transport, post, hf, run } = await scene();
    const { id } = await hf.enqueue(post.send, { template: "gone", data: { user: "7" }, to: "ada@example.com" });
    expect((await run(id))?.output).toEqual({ skipped: true, reason: "the user was deleted" });
    expect(transport.messages).toEqual([]);
  });

  it("E-05 that returns an invalid message is not retried", async () => {
    const { post, hf, run } = await scene();
    const { id } = await hf.enqueue(post.send, { template: "wrong" });
    const dead = await run(id);
    expect(dead).toMatchObject({ state: "dead", attempt: 1 });
    expect(dead?.error?.message).toBe(
      'the template "wrong" returned an invalid message: subject must be one line without control characters',
    );
  });

  it("E-05 must be named and fed correctly to compile", async () => {
    const { post, hf } = await scene();
    const checks = async () => {
      // @ts-expect-error there is no such template
      await hf.enqueue(post.send, { template: "welcom", data: { name: "Ada" }, to: "ada@example.com" });
      // @ts-expect-error the name must be a string
      await hf.enqueue(post.send, { template: "welcome", data: { name: 7 }, to: "ada@example.com" });
      // @ts-expect-error the data is missing
      await hf.enqueue(post.send, { template: "welcome", to: "ada@example.com" });
      // @ts-expect-error no recipient, and the template names none
      await hf.enqueue(post.send, { template: "welcome", data: { name: "Ada" } });
      // @ts-expect-error the template returns the subject
      await hf.enqueue(post.send, { template: "report", subject: "Hi" });
      // @ts-expect-error a Date is stored as a string
      await hf.enqueue(post.send, { template: "dated", data: { at: new Date() } });
      // @ts-expect-error a message without a subject
      await hf.enqueue(post.send, { to: "ada@example.com", textBody: "Hello" });
    };
    expect(checks).toBeTypeOf("function");
  });
});

describe("mail()", () => {
  const transport = collecting();
  const from = "hello@club.example";

  it.each([
    ["transport", { from }],
    ["from", { transport, from: "Club" }],
    ["from", { transport }],
    ["templates.a", { transport, from, templates: { a: "text" } }],
    ["queue", { transport, from, queue: "*" }],
    ["prefix", { transport, from, prefix: "a\n" }],
    ["sender", { transport, from, sender: from }],
  ])("refuses a wrong option %s", (field, options) => {
    expect(() => mail(options as never)).toThrow(expect.objectContaining({ code: "INVALID_OPTION", field }));
  });

  it("prefixes the type, and has a queue of its own", () => {
    const { send } = mail({ transport, from, prefix: "club.", queue: "post" });
    expect(send).toMatchObject({ type: "club.email.send", queue: "post" });
    expect(mail({ transport, from }).send).toMatchObject({ type: "email.send", queue: "mail" });
  });
});
