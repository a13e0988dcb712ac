import { domainToASCII } from "node:url";
import { InvalidOptionError, NotRetryable } from "holdfast";
import { optionKeys, readName, refuseUnknown, requirePeer, show } from "holdfast/pack";
import { withoutAddresses } from "../address.js";
import type { MailTransport, OutgoingMessage, SentMail } from "../transport.js";
import { PartlySentMails } from "./partly-sent.js";

/** Options of {@link smtp}. */
export interface SmtpOptions {
  /** `smtp://user:password@host:587` (STARTTLS where the server offers it) or `smtps://…:465` (TLS from the beginning). */
  url: string;
  /** Connections that are kept open and used in turn. Default 5. */
  maxConnections?: number;
  /** The header with the tag of a message, e.g. `X-PM-Tag`. Default `X-Tag`. */
  tagHeader?: string;
  /** More options of nodemailer's SMTP transport, such as `tls` or `dkim`. They take precedence. */
  nodemailer?: Readonly<Record<string, unknown>>;
}

/** The parts of nodemailer that are used. */
interface Nodemailer {
  createTransport(options: object): {
    sendMail(mail: object): Promise<Envelope>;
    close(): void;
  };
}
interface Envelope {
  messageId: string;
  accepted: readonly (string | { address: string })[];
  rejected: readonly (string | { address: string })[];
  rejectedErrors?: readonly (SmtpFailure & { recipient?: string })[];
}
/** An error of nodemailer. */
interface SmtpFailure {
  code?: unknown;
  /** That of Node. */
  originalCode?: unknown;
  command?: unknown;
  responseCode?: unknown;
  response?: unknown;
}

const OPTIONS = optionKeys<SmtpOptions>({ url: true, maxConnections: true, tagHeader: true, nodemailer: true });
const MAX_CONNECTIONS = 100;
// Shorter than the timeout of the job, so that the error names what the server did not do.
const TIMEOUTS = { connectionTimeout: 20_000, greetingTimeout: 20_000, socketTimeout: 45_000 };
// An open connection keeps the process alive.
const IDLE_MS = 10_000;

/**
 * Sends mails to an SMTP server, with nodemailer. The Message-ID is made from the job's idempotency key, so all attempts send the same
 * one.
 *
 * ```ts
 * const post = mail({ transport: smtp(process.env.SMTP_URL ?? "smtp://localhost:2525"), from: "hello@club.example" });
 * ```
 */
export function smtp(options: string | SmtpOptions): MailTransport {
  // A missing environment variable is a missing URL.
  const given: SmtpOptions = typeof options === "object" && options !== null ? options : { url: options };
  refuseUnknown(given, OPTIONS, "smtp");
  const { maxConnections = 5, tagHeader = "X-Tag", nodemailer: more = {} } = given;
  if (!Number.isInteger(maxConnections) || maxConnections < 1 || maxConnections > MAX_CONNECTIONS) {
    throw new InvalidOptionError(
      "maxConnections",
      `${show(maxConnections)} is not a whole number from 1 to ${MAX_CONNECTIONS}`,
    );
  }
  readName(tagHeader, "tagHeader", 76);
  const pool = requirePeer<Nodemailer>("nodemailer", import.meta.url).createTransport({
    ...TIMEOUTS,
    idleTimeout: IDLE_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
    ...serverOf(given.url),
    ...more,
    maxConnections,
    pool: true,
  });
  const partlySent = new PartlySentMails();
  return {
    async send(message, { idempotencyKey, signal, jobId }): Promise<SentMail> {
      signal.throwIfAborted();
      const id = messageIdOf(idempotencyKey, message);
      const key = [id, ...recipientsOf(message)].join(" ");
      const before = partlySent.get(key);
      let sent: Envelope;
      try {
        sent = await pool.sendMail({
          ...mailOf(message),
          ...(before !== undefined && { envelope: { from: message.from.address, to: before.deferred } }),
          messageId: id,
          headers: headersOf(message, tagHeader, jobId),
          signal,
        });
      } catch (error) {
        signal.throwIfAborted();
        const failure = failureOf(error as SmtpFailure);
        // Any other refusal, such as that of a wrong password, says nothing about those who were deferred.
        const areRefused = failure instanceof NotRetryable && isAboutRecipients(error as SmtpFailure);
        if (before === undefined || !areRefused) throw failure;
        partlySent.delete(key);
        return { id, accepted: before.accepted, rejected: [...before.refused, ...before.deferred] };
      }
      const { rejectedErrors = [] } = sent;
      const accepted = [...(before?.accepted ?? []), ...sent.accepted.map(addressOf)];
      const rejected = [...(before?.refused ?? []), ...sent.rejected.map(addressOf)];
      const deferrals = rejectedErrors.filter(({ responseCode }) => Number(responseCode) < 500);
      if (deferrals[0] === undefined) {
        partlySent.delete(key);
        return { id, accepted, rejected };
      }
      const deferred = deferrals.map(({ recipient }) => String(recipient));
      partlySent.set(key, { accepted, refused: rejected.filter((each) => !deferred.includes(each)), deferred });
      throw failureOf(deferrals[0]);
    },
    close: () => pool.close(),
  };
}

/** Parsed here, because versions of nodemailer differ in which options a URL may be combined with. */
function serverOf(given: string): object {
  const problem = (what: string): InvalidOptionError =>
    // Without the URL, which may have a password.
    new InvalidOptionError("url", `${what}; use smtp://user:password@host:587 or smtps://user:password@host:465`);
  if (typeof given !== "string" || !URL.canParse(given)) throw problem("is not a URL");
  const url = new URL(given);
  if (url.protocol !== "smtp:" && url.protocol !== "smtps:") throw problem("must begin with smtp:// or smtps://");
  if (url.hostname === "") throw problem("has no host");
  if (url.search !== "") throw problem("must have no parameters: pass them in the option nodemailer");
  const secure = url.protocol === "smtps:";
  return {
    host: url.hostname.replace(/^\[(.*)\]$/, "$1"),
    port: url.port === "" ? (secure ? 465 : 587) : Number(url.port),
    secure,
    ...(url.username !== "" && {
      auth: { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) },
    }),
  };
}

function mailOf({ from, to, cc, bcc, replyTo, subject, textBody, htmlBody }: OutgoingMessage): object {
  return {
    from,
    to,
    cc,
    bcc,
    replyTo,
    subject,
    ...(textBody !== null && { text: textBody }),
    ...(htmlBody !== null && { html: htmlBody }),
  };
}

function recipientsOf({ to, cc, bcc }: OutgoingMessage): string[] {
  return [...to, ...cc, ...bcc].map(({ address }) => address);
}

function headersOf({ headers, tag }: OutgoingMessage, tagHeader: string, jobId: string): object {
  return { ...headers, ...(tag !== null && { [tagHeader]: tag }), "X-Holdfast-Job": jobId };
}

function messageIdOf(key: string, { from }: OutgoingMessage): string {
  const domain = domainToASCII(from.address.slice(from.address.lastIndexOf("@") + 1));
  return `<${key.replaceAll(/[^\w.-]/g, "_")}@${domain === "" ? "localhost" : domain}>`;
}

function addressOf(given: string | { address: string }): string {
  return typeof given === "string" ? given : given.address;
}

/** All recipients were refused. */
function isAboutRecipients({ code, command }: SmtpFailure): boolean {
  return code === "EENVELOPE" && command === "RCPT TO";
}

/**
 * A new error, because those of nodemailer have addresses and the session in their fields, which are stored. 5xx: the server will refuse
 * the same message again.
 */
function failureOf({ code, originalCode, command, responseCode, response }: SmtpFailure): Error {
  // ECONNREFUSED says more than the ESOCKET that nodemailer makes of it.
  const name = [originalCode, code].find((each) => typeof each === "string") ?? "unknown error";
  const after = typeof command === "string" && command !== "CONN" ? ` after ${command}` : "";
  if (typeof responseCode !== "number") {
    return Object.assign(new Error(`the mail server could not be used: ${name}${after}`), { code: name });
  }
  const message = withoutAddresses(`the mail server responded${after}: ${String(response)}`).slice(0, 500);
  return responseCode >= 500
    ? new NotRetryable(message)
    : Object.assign(new Error(message), { code: name, responseCode });
}
