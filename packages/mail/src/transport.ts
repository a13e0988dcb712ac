import type { Address } from "./address.js";

/** A message as a transport gets it: complete and checked. */
export interface OutgoingMessage {
  readonly from: Address;
  readonly to: readonly Address[];
  readonly cc: readonly Address[];
  readonly bcc: readonly Address[];
  readonly replyTo: readonly Address[];
  readonly subject: string;
  /** At least one of the two bodies is set. */
  readonly textBody: string | null;
  readonly htmlBody: string | null;
  /** A label for statistics of the mail service. */
  readonly tag: string | null;
  readonly headers: Readonly<Record<string, string>>;
}

/** Passed to a transport with each message. */
export interface SendContext {
  /** The same in all attempts of a job: pass it to the mail service, or derive the Message-ID from it. */
  readonly idempotencyKey: string;
  /** Aborted on timeout, cancellation, lost lease and shutdown. */
  readonly signal: AbortSignal;
  readonly jobId: string;
  /** The job was claimed before: an earlier attempt may have sent the mail. A transport that can find it out does not send it again. */
  readonly mayBeSent: boolean;
}

/** What a transport returns. */
export interface SentMail {
  /** The Message-ID, or the id that the mail service gave the message. */
  readonly id: string;
  /** The addresses that the server accepted. */
  readonly accepted: readonly string[];
  /** The addresses that the server refused. */
  readonly rejected: readonly string[];
}

/**
 * Sends mails. Throws `NotRetryable` if the message can never be sent, `RetryAfter` if the service names a time, and any other error if
 * a later attempt may succeed. The errors must not contain addresses or bodies, because they are stored and logged.
 */
export interface MailTransport {
  send(message: OutgoingMessage, context: SendContext): Promise<SentMail>;
  /** Closes connections. */
  close?(): void | Promise<void>;
}
