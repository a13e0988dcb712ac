import {
  mail,
  type AddressedMessage,
  type Mail,
  type MailTransport,
  type Skip,
  type Template,
  type TemplateContext,
  type TemplateMessage,
} from "@holdfast/mail";
import type { Holdfast } from "holdfast";
import { describe, expectTypeOf, it } from "vitest";

// Checked by the compiler: each @ts-expect-error fails the build if the line below it compiles.

interface Welcome {
  readonly user: string;
  readonly club?: { name: string; tags: readonly string[] };
}
interface Late {
  at: Date;
}

const transport: MailTransport = { send: () => Promise.reject(new Error("nothing is sent here")) };
const from = "hello@club.example";
const message = { subject: "Welcome", textBody: "Good to see you." };
const to = "ada@example.com";

/** Compiled, and never called. */
declare const hf: Holdfast;
declare const data: Welcome;

describe("the data of a template", () => {
  const post = mail({
    transport,
    from,
    templates: {
      welcome: ({ user }: Welcome) => ({ ...message, to: user }),
      late: ({ at }: Late) => ({ ...message, to: String(at) }),
    },
  });

  it("E-05 may be an interface", () => {
    void (() => hf.enqueue(post.send, { template: "welcome", data }));
    // @ts-expect-error the user must be a string
    void (() => hf.enqueue(post.send, { template: "welcome", data: { user: 7 } }));
    // @ts-expect-error the data is missing
    void (() => hf.enqueue(post.send, { template: "welcome" }));
  });

  it("E-05 may not have what JSON changes", () => {
    // @ts-expect-error a Date is stored as a string
    void (() => hf.enqueue(post.send, { template: "late", data: { at: new Date() } }));
  });
});

describe("a declared template", () => {
  const welcome: Template<Welcome> = () => message;
  const addressed: Template<Welcome, AddressedMessage> = ({ user }) => ({ ...message, to: user });
  const maybe: Template<Welcome, AddressedMessage> = async ({ user }) =>
    Promise.resolve(user === "" ? { skip: "no user" } : { ...message, to: user });
  const checked = (({ user }) => ({ ...message, to: user })) satisfies Template<Welcome>;
  const post = mail({ transport, from, templates: { welcome, addressed, maybe, checked } });

  it("E-05 needs recipients at the enqueue", () => {
    void (() => hf.enqueue(post.send, { template: "welcome", data, to }));
    // @ts-expect-error nothing names the recipients
    void (() => hf.enqueue(post.send, { template: "welcome", data }));
  });

  it("E-05 may name the recipients itself", () => {
    void (() => hf.enqueue(post.send, { template: "addressed", data }));
    void (() => hf.enqueue(post.send, { template: "maybe", data }));
    void (() => hf.enqueue(post.send, { template: "checked", data }));
    void (() => hf.enqueue(post.send, { template: "addressed", data, to }));
    // @ts-expect-error it must return the recipients
    const wrong: Template<Welcome, AddressedMessage> = () => message;
    void wrong;
  });

  it("E-05 has typed arguments", () => {
    expectTypeOf<Template<Welcome>>().parameters.toEqualTypeOf<[Welcome, TemplateContext]>();
    expectTypeOf<Awaited<ReturnType<Template<Welcome, AddressedMessage>>>>().toEqualTypeOf<AddressedMessage | Skip>();
    expectTypeOf<AddressedMessage>().toExtend<TemplateMessage>();
  });
});

describe("templates", () => {
  interface ClubTemplates {
    welcome: Template<Welcome, AddressedMessage>;
    notice: Template<{ text: string }>;
    report(): TemplateMessage;
  }
  const templates: ClubTemplates = {
    welcome: ({ user }) => ({ ...message, to: user }),
    notice: ({ text }) => ({ subject: "Notice", textBody: text }),
    report: () => message,
  };

  it("E-05 may be declared as an interface", () => {
    const post: Mail<ClubTemplates> = mail({ transport, from, templates });
    void (() => hf.enqueue(post.send, { template: "welcome", data }));
    void (() => hf.enqueue(post.send, { template: "notice", data: { text: "Closed today" }, to }));
    void (() => hf.enqueue(post.send, { template: "report", to }));
    void (() => hf.enqueue(post.send, { ...message, to }));
    // @ts-expect-error there is no such template
    void (() => hf.enqueue(post.send, { template: "welcom", data }));
    // @ts-expect-error the text is missing
    void (() => hf.enqueue(post.send, { template: "notice", data: {}, to }));
    // @ts-expect-error nothing names the recipients
    void (() => hf.enqueue(post.send, { template: "report" }));
  });

  it("E-05 without any, only messages can be enqueued", () => {
    const post: Mail = mail({ transport, from });
    void (() => hf.enqueue(post.send, { ...message, to }));
    // @ts-expect-error there are no templates
    void (() => hf.enqueue(post.send, { template: "welcome", data, to }));
  });

  it("E-05 must be functions that return a message", () => {
    // @ts-expect-error it is not a function
    void (() => mail({ transport, from, templates: { a: "text" } }));
    // @ts-expect-error the subject is missing
    void (() => mail({ transport, from, templates: { a: () => ({ textBody: "Hello" }) } }));
    // @ts-expect-error the subject must be a string
    void (() => mail({ transport, from, templates: { a: async () => ({ subject: 7, textBody: "Hello" }) } }));
  });
});
