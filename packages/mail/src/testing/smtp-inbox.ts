import { once } from "node:events";
import type { AddressInfo, Server } from "node:net";
import { buffer } from "node:stream/consumers";
import { WaitTimeoutError, type Duration } from "holdfast";
import { durationMs, requirePeer } from "holdfast/pack";

/** A mail that an inbox accepted. */
export interface ReceivedMail {
  /** The sender of the envelope. */
  from: string;
  /** The recipients of the envelope that were accepted, with those of cc and bcc. */
  to: readonly string[];
  subject: string;
  /** The body as plain text; empty if there is none. */
  text: string;
  /** The body as HTML; empty if there is none. */
  html: string;
  messageId: string;
  /** All headers, with names in lower case; the last one if a name is repeated. */
  headers: Readonly<Record<string, string>>;
  /** The mail as it was received. */
  raw: string;
}

/** Options of {@link SmtpInbox.fail}. */
export interface FailOptions {
  /** How many mails fail. Default: all until `recover()`. */
  times?: number;
}

/** Options of the calls that wait. */
export interface WaitOptions {
  /** Default 10 s. */
  timeout?: Duration;
}

/** An SMTP server on 127.0.0.1 that keeps what it receives. */
export interface SmtpInbox extends AsyncDisposable {
  /** For `smtp(inbox.url)`. */
  readonly url: string;
  /** The accepted mails, in order. */
  readonly mails: readonly ReceivedMail[];
  /** How many mails hang now. */
  readonly hanging: number;
  /** The next mail that matches and that no earlier call returned; waits until there is one. */
  next(matches?: (mail: ReceivedMail) => boolean, options?: WaitOptions): Promise<ReceivedMail>;
  /** Waits until so many mails hang. */
  hung(count: number, options?: WaitOptions): Promise<void>;
  /** Refuses a recipient, with a code such as 550 (for ever) or 450 (for now). Default 550. */
  refuse(address: string, code?: number): void;
  /** Refuses all mails, with a code such as 451 (for now) or 554 (for ever). */
  fail(code: number, options?: FailOptions): void;
  /** Never responds to a mail, until `recover()`. `after`: so many mails are still accepted first. Default 0. */
  hang(options?: { after?: number }): void;
  /** Ends `refuse`, `fail` and `hang`. Mails that hang are refused with 451. */
  recover(): void;
  /** Stops the server and closes its connections. */
  close(): Promise<void>;
}

/** The parts of smtp-server that are used. */
interface SmtpServerModule {
  SMTPServer: new (options: object) => SmtpServer;
}
interface SmtpServer {
  listen(port: number, host: string): Server;
  close(done: () => void): void;
  on(event: "error", listener: (error: Error) => void): void;
}
interface Session {
  id: string;
  envelope: { mailFrom: { address: string } | false; rcptTo: { address: string }[] };
}
type Done = (error?: Error | null) => void;
/** The parts of postal-mime that are used. */
interface PostalMime {
  default: { parse(raw: Buffer): Promise<Parsed> };
}
interface Parsed {
  subject?: string;
  text?: string;
  html?: string;
  messageId?: string;
  headers: readonly { key: string; value: string }[];
}

interface Waiter {
  isReady: () => boolean;
  resolve: () => void;
}

/**
 * Starts an SMTP server for tests. It needs the packages smtp-server and postal-mime.
 *
 * ```ts
 * const inbox = await smtpInbox();
 * const post = mail({ transport: smtp(inbox.url), from: "hello@club.example" });
 * const { subject } = await inbox.next((mail) => mail.to.includes("ada@example.com"));
 * ```
 */
export async function smtpInbox(): Promise<SmtpInbox> {
  const { SMTPServer } = requirePeer<SmtpServerModule>("smtp-server", import.meta.url);
  const { default: postalMime } = requirePeer<PostalMime>("postal-mime", import.meta.url);
  const mails: ReceivedMail[] = [];
  const taken = new Set<ReceivedMail>();
  const hanging = new Map<string, Done>();
  const waiters = new Set<Waiter>();
  const refused = new Map<string, number>();
  let failing: { code: number; left: number } | null = null;
  /** How many mails are accepted before the next hang. */
  let acceptsLeft = Number.POSITIVE_INFINITY;

  const changed = (): void => {
    for (const waiter of waiters) if (waiter.isReady()) waiter.resolve();
  };
  const receive = async (raw: Buffer, { envelope }: Session): Promise<void> => {
    const { subject = "", text = "", html = "", messageId = "", headers } = await postalMime.parse(raw);
    mails.push({
      from: envelope.mailFrom === false ? "" : envelope.mailFrom.address,
      to: envelope.rcptTo.map(({ address }) => address),
      subject,
      text: text.trimEnd(),
      html: html.trimEnd(),
      messageId,
      headers: Object.fromEntries(headers.map(({ key, value }) => [key.toLowerCase(), value])),
      raw: raw.toString(),
    });
  };

  const server = new SMTPServer({
    authOptional: true,
    allowInsecureAuth: true,
    disabledCommands: ["STARTTLS"],
    disableReverseLookup: true,
    logger: false,
    // Any user and password.
    onAuth: (auth: { username?: string }, _session: Session, done: (error: null, result: object) => void) =>
      done(null, { user: auth.username ?? "user" }),
    onClose: ({ id }: Session) => void hanging.delete(id),
    onRcptTo({ address }: { address: string }, _session: Session, done: Done) {
      const code = refused.get(address.toLowerCase());
      done(code === undefined ? null : responseOf(code, `5.1.1 <${address}> recipient refused`));
    },
    onData(stream: NodeJS.ReadableStream, session: Session, done: Done) {
      void respond(buffer(stream as AsyncIterable<Buffer>), session, done);
    },
  });
  async function respond(reading: Promise<Buffer>, session: Session, done: Done): Promise<void> {
    try {
      const raw = await reading;
      if (failing !== null && failing.left > 0) {
        failing.left--;
        return done(responseOf(failing.code, "the test inbox fails"));
      }
      if (acceptsLeft <= 0) {
        hanging.set(session.id, done);
        return changed();
      }
      acceptsLeft--;
      await receive(raw, session);
      done();
      changed();
    } catch (error) {
      done(error as Error);
    }
  }
  // A client that aborts closes its connection in the middle of a mail.
  server.on("error", () => {});
  const listening = server.listen(0, "127.0.0.1");
  await once(listening, "listening");
  const { port } = listening.address() as AddressInfo;

  async function wait(isReady: () => boolean, what: string, { timeout = "10s" }: WaitOptions): Promise<void> {
    if (isReady()) return;
    let timer: NodeJS.Timeout | undefined;
    let waiter: Waiter | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        waiters.add((waiter = { isReady, resolve }));
        timer = setTimeout(
          () => reject(new WaitTimeoutError(`${what} within ${timeout}; ${mails.length} mails arrived`)),
          durationMs(timeout, "timeout"),
        );
      });
    } finally {
      clearTimeout(timer);
      if (waiter !== undefined) waiters.delete(waiter);
    }
  }

  const recover = (): void => {
    refused.clear();
    failing = null;
    acceptsLeft = Number.POSITIVE_INFINITY;
    for (const done of hanging.values()) done(responseOf(451, "the test inbox did not respond"));
    hanging.clear();
  };
  const close = async (): Promise<void> => {
    recover();
    await new Promise<void>((resolve) => server.close(resolve));
  };
  return {
    url: `smtp://127.0.0.1:${port}`,
    mails,
    get hanging() {
      return hanging.size;
    },
    async next(matches = () => true, options = {}) {
      let found: ReceivedMail | undefined;
      const find = (): boolean => {
        found ??= mails.find((mail) => !taken.has(mail) && matches(mail));
        if (found === undefined) return false;
        taken.add(found);
        return true;
      };
      await wait(find, "no such mail arrived", options);
      return found as ReceivedMail;
    },
    hung: (count, options = {}) => wait(() => hanging.size >= count, `fewer than ${count} mails hang`, options),
    refuse: (address, code = 550) => void refused.set(address.toLowerCase(), code),
    fail: (code, { times = Number.POSITIVE_INFINITY } = {}) => void (failing = { code, left: times }),
    hang: ({ after = 0 } = {}) => void (acceptsLeft = after),
    recover,
    close,
    [Symbol.asyncDispose]: close,
  };
}

function responseOf(responseCode: number, message: string): Error {
  return Object.assign(new Error(message), { responseCode });
}
