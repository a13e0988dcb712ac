import { InvalidOptionError, NotRetryable, RetryAfter } from "holdfast";
import { optionKeys, readName, refuseUnknown, requirePeer, show } from "holdfast/pack";
import { formatAddress, withoutAddresses, type Address } from "../address.js";
import type { MailTransport, OutgoingMessage, SentMail } from "../transport.js";

/** Options of {@link postmark}. */
export interface PostmarkOptions {
  /** The API token of a Postmark server. */
  token: string;
  /** The message stream. Default `"outbound"`; newsletters need a broadcast stream. */
  messageStream?: string;
  /** More options of Postmark's client, such as `requestHost` and `useHttps`. */
  client?: Readonly<Record<string, unknown>>;
}

/** The parts of the postmark package that are used. */
interface Postmark {
  ServerClient: new (token: string, options: object) => PostmarkClient;
}
interface PostmarkClient {
  sendEmail(email: object): Promise<PostmarkResult>;
  getOutboundMessages(filter: object): Promise<{ Messages?: readonly FoundMessage[] }>;
}
/** A message that Postmark has accepted. */
interface FoundMessage {
  MessageID: string;
  Recipients?: readonly string[];
  Metadata?: Readonly<Record<string, string>>;
}
interface PostmarkResult {
  MessageID: string;
  Message?: string;
}
/** An error of the postmark package. */
interface PostmarkFailure {
  statusCode?: unknown;
  code?: unknown;
  message?: unknown;
}
type Fetch = typeof fetch;

const OPTIONS = optionKeys<PostmarkOptions>({ token: true, messageStream: true, client: true });
// Shorter than the timeout of the job.
const TIMEOUT_SECONDS = 45;
/** Postmark accepts a message if one recipient is active, and lists the others here. */
const INACTIVE = /inactive addresses: (?<list>.+?)\.?$/i;
/** 408, 409, 425 and 429, and everything from 500 on, may be different the next time. */
const MAY_PASS: ReadonlySet<number> = new Set([408, 409, 425, 429]);

/**
 * Sends mails with Postmark. The job's id is in the metadata, as `job`: if an earlier attempt may have sent the mail, Postmark is asked for it
 * first.
 *
 * ```ts
 * const post = mail({ transport: postmark({ token: process.env.POSTMARK_TOKEN ?? "" }), from: "hello@club.example" });
 * ```
 */
export function postmark(options: PostmarkOptions): MailTransport {
  refuseUnknown(options, OPTIONS, "postmark");
  const { token, messageStream = "outbound", client = {} } = options;
  if (typeof token !== "string" || token.trim() === "")
    throw new InvalidOptionError("token", "must be the API token of a Postmark server");
  readName(messageStream, "messageStream", 100);
  if (typeof client !== "object" || client === null)
    throw new InvalidOptionError("client", `${show(client)} is not an object`);
  const { ServerClient } = requirePeer<Postmark>("postmark", import.meta.url);
  const ownFetch = (client["fetch"] ?? fetch) as Fetch;
  return {
    async send(message, { signal, jobId, mayBeSent }): Promise<SentMail> {
      signal.throwIfAborted();
      let wait: string | null = null;
      // One client per mail: the package takes no signal, and has no connections of its own.
      const caller = new ServerClient(token, {
        timeout: TIMEOUT_SECONDS,
        ...client,
        async fetch(url: Parameters<Fetch>[0], init: RequestInit = {}) {
          const signals = init.signal ? [init.signal, signal] : [signal];
          const response = await ownFetch(url, { ...init, signal: AbortSignal.any(signals) });
          wait = response.headers.get("retry-after");
          return response;
        },
      });
      try {
        const before = mayBeSent ? await find(caller, messageStream, jobId) : null;
        if (before !== null) return { id: before.MessageID, ...recipientsOfFound(message, before) };
        const sent = await caller.sendEmail(emailOf(message, messageStream, jobId));
        return { id: sent.MessageID, ...recipientsOf(message, sent) };
      } catch (error) {
        signal.throwIfAborted();
        throw failureOf(error as PostmarkFailure, wait);
      }
    },
  };
}

/** The message that an earlier attempt of the job has sent; null if Postmark shows none, which it does only after a moment. */
async function find(caller: PostmarkClient, messageStream: string, jobId: string): Promise<FoundMessage | null> {
  try {
    const { Messages = [] } = await caller.getOutboundMessages({
      count: 1,
      offset: 0,
      messageStream,
      metadata_job: jobId,
    });
    // A search that ignored the filter must not keep the mail from being sent.
    return Messages.find(({ Metadata }) => Metadata?.["job"] === jobId) ?? null;
  } catch (error) {
    const { statusCode } = error as PostmarkFailure;
    // Whatever is wrong with the search will be wrong again: a mail that is sent twice is better than one that is never sent.
    if (isFinal(statusCode)) return null;
    throw error;
  }
}

function emailOf(
  { from, to, cc, bcc, replyTo, subject, textBody, htmlBody, tag, headers }: OutgoingMessage,
  messageStream: string,
  jobId: string,
): object {
  return {
    From: formatAddress(from),
    To: listOf(to),
    ...(cc.length > 0 && { Cc: listOf(cc) }),
    ...(bcc.length > 0 && { Bcc: listOf(bcc) }),
    ...(replyTo.length > 0 && { ReplyTo: listOf(replyTo) }),
    Subject: subject,
    ...(textBody !== null && { TextBody: textBody }),
    ...(htmlBody !== null && { HtmlBody: htmlBody }),
    ...(tag !== null && { Tag: tag }),
    Headers: Object.entries(headers).map(([Name, Value]) => ({ Name, Value })),
    Metadata: { job: jobId },
    MessageStream: messageStream,
  };
}

function listOf(addresses: readonly Address[]): string {
  return addresses.map(formatAddress).join(", ");
}

function recipientsOf(
  { to, cc, bcc }: OutgoingMessage,
  { Message = "" }: PostmarkResult,
): Pick<SentMail, "accepted" | "rejected"> {
  const inactive = INACTIVE.exec(Message)?.groups?.["list"]?.split(",") ?? [];
  const refused = new Set(inactive.map((address) => address.trim().toLowerCase()));
  const all = [...to, ...cc, ...bcc].map(({ address }) => address);
  return {
    accepted: all.filter((address) => !refused.has(address.toLowerCase())),
    rejected: all.filter((address) => refused.has(address.toLowerCase())),
  };
}

function recipientsOfFound(
  { to, cc, bcc }: OutgoingMessage,
  { Recipients }: FoundMessage,
): Pick<SentMail, "accepted" | "rejected"> {
  const all = [...to, ...cc, ...bcc].map(({ address }) => address);
  const found = new Set((Recipients ?? all).map((address) => address.toLowerCase()));
  const accepted = all.filter((address) => found.has(address.toLowerCase()));
  // A template may have built the message for other recipients this time.
  if (accepted.length === 0) return { accepted: all, rejected: [] };
  return { accepted, rejected: all.filter((address) => !found.has(address.toLowerCase())) };
}

function isFinal(statusCode: unknown): boolean {
  return typeof statusCode === "number" && statusCode >= 400 && statusCode < 500 && !MAY_PASS.has(statusCode);
}

function failureOf({ statusCode, code, message }: PostmarkFailure, wait: string | null): Error {
  const reason = withoutAddresses(String(message)).slice(0, 500);
  if (typeof statusCode !== "number" || statusCode === 0) return new Error(`Postmark could not be reached: ${reason}`);
  const text = `Postmark responded ${statusCode}, error ${String(code)}: ${reason}`;
  if (isFinal(statusCode)) return new NotRetryable(text);
  const seconds = statusCode === 429 && wait !== null ? Number(wait) : Number.NaN;
  // A longer wait than a day is none that a rate limit asks for.
  return seconds > 0 && seconds <= 86_400 ? new RetryAfter(seconds * 1_000, text) : new Error(text);
}
