import type { OutgoingMessage, SendContext } from "@holdfast/mail";

export function message(more: Partial<OutgoingMessage> = {}): OutgoingMessage {
  return {
    from: { name: "Club", address: "hello@club.example" },
    to: [{ name: "", address: "ada@example.com" }],
    cc: [],
    bcc: [],
    replyTo: [],
    subject: "Welcome",
    textBody: "Good to see you.",
    htmlBody: null,
    tag: null,
    headers: {},
    ...more,
  };
}

export function context(signal: AbortSignal = new AbortController().signal, mayBeSent = false): SendContext {
  return { idempotencyKey: "key-1", signal, jobId: "job-1", mayBeSent };
}
