import { InvalidOptionError, job, NotRetryable, type Holdfast, type JobType, type RunContext } from "holdfast";
import { optionKeys, readName, refuseUnknown, show } from "holdfast/pack";
import type { z } from "zod";
import { parseAddress, type Address } from "./address.js";
import { inputSchema, outgoing, readMessage, type MessageFields, type StoredInput } from "./message.js";
import { readClient, readFunction, readPort } from "./options.js";
import type { SendInput, Skip, Template, TemplateMessage, Templates } from "./templates.js";
import type { MailTransport, SentMail } from "./transport.js";
import { isFinal, untilAborted } from "./attempt.js";

/** Options of {@link mail}. */
export interface MailOptions<Known extends Templates<keyof Known>> {
  /** Sends the mails: `smtp(…)`, `postmark(…)`, `log()`, or your own. */
  transport: MailTransport;
  /** The sender of mails that do not name one: `Club <hello@club.example>`. */
  from: string;
  /** Functions that build mails when their job runs, by name. */
  templates?: Known;
  /** Goes before the type of the job: with `"club."` it is `club.email.send`. Default: none. */
  prefix?: string;
  /** The queue of the job. Default `"mail"`. */
  queue?: string;
}

/** The output of `email.send`. */
export type SendOutput =
  | { messageId: string; accepted: readonly string[]; rejected: readonly string[] }
  | { skipped: true; reason: string };

/** Called if a mail of a template will not be sent, also because the template failed. */
export type OnTemplateFailed<Data> = (data: Data, failed: { jobId: string; error: unknown }) => void | Promise<void>;

/** What other parts of an application need of `mail()`, whatever its templates are. */
export interface MailPack {
  /** Pass them to `holdfast({ jobs })`. */
  readonly jobs: readonly JobType[];
  /** The job type `email.send`. */
  readonly send: JobType;
  /** Goes before the types of jobs. */
  readonly prefix: string;
  /**
   * Adds a template that was not known when `mail()` was called. For packs that send mails. A job with it has its data and nothing else:
   * who may enqueue jobs must not be able to add a recipient to a mail with a secret.
   */
  addTemplate<Data>(name: string, template: Template<Data>, onFailed?: OnTemplateFailed<Data>): void;
}

/** What {@link mail} returns. */
export interface Mail<Known extends Templates<keyof Known> = Record<never, never>> extends MailPack {
  /** The job type `email.send`: `hf.enqueue(post.send, { to, subject, textBody })`. */
  readonly send: JobType<SendInput<Known>, SendOutput>;
  /** Prepares the database of a client. This pack has no tables; call it anyway, as for all packs. */
  install(hf: Holdfast): Promise<void>;
  /** Closes the connections of the transport. Call it after `hf.close()`. */
  close(): Promise<void>;
}

const OPTIONS = optionKeys<MailOptions<Templates>>({
  transport: true,
  from: true,
  templates: true,
  prefix: true,
  queue: true,
});

/** Attempts after 30, 60 and 120 s. */
const RETRY = { maxAttempts: 4, backoff: { base: "30s", factor: 2, jitter: 0 } } as const;

/**
 * The job type `email.send`, over a transport.
 *
 * ```ts
 * const post = mail({ transport: smtp("smtp://localhost:2525"), from: "Club <hello@club.example>" });
 * const hf = await holdfast({ store: "sqlite:club.db", jobs: post.jobs });
 * await hf.enqueue(post.send, { to: "ada@example.com", subject: "Welcome", textBody: "Good to see you." });
 * ```
 */
export function mail<const Known extends Templates<keyof Known> = Record<never, never>>(
  options: MailOptions<Known>,
): Mail<Known> {
  refuseUnknown(options, OPTIONS, "mail");
  const transport = readPort(options.transport, "transport", ["send"], "pass smtp(…), postmark(…) or log()");
  const from = readFrom(options.from);
  const prefix = readPrefix(options.prefix ?? "");
  const templates = readTemplates(options.templates ?? {});
  const sealed = new Map<string, OnTemplateFailed<never>>();
  const send = job({
    type: `${prefix}email.send`,
    queue: options.queue ?? "mail",
    retry: RETRY,
    timeout: "1m",
    input: inputSchema(templates, sealed) as unknown as z.ZodType<StoredInput, SendInput<Known>>,
    run: (context) => sendMail(context, { transport, from, templates, sealed }),
  });
  return Object.freeze({
    jobs: Object.freeze([send]),
    send,
    prefix,
    async install(hf: Holdfast) {
      readClient(hf);
    },
    addTemplate(name: string, template: Template<never>, onFailed: OnTemplateFailed<never> = () => {}) {
      readName(name, "template", MAX_NAME);
      if (templates.has(name)) throw new InvalidOptionError("template", `${show(name)} is already a template`);
      templates.set(name, template);
      sealed.set(name, onFailed);
    },
    async close() {
      await transport.close?.();
    },
  });
}

/** Reads an option `from`. */
export function readFrom(value: string, field = "from"): Address {
  const from = typeof value === "string" ? parseAddress(value) : null;
  if (from !== null) return from;
  throw new InvalidOptionError(
    field,
    `${show(value)} is not an address such as hello@club.example or Club <hello@club.example>`,
  );
}

const MAX_NAME = 100;

function readPrefix(prefix: string): string {
  return prefix === "" ? "" : readName(prefix, "prefix", MAX_NAME);
}

function readTemplates(given: Templates): Map<string, Template<never>> {
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new InvalidOptionError("templates", `${show(given)} is not an object of functions`);
  return new Map(
    Object.entries(given).map(([name, template]) => {
      readName(name, "templates", MAX_NAME);
      return [name, readFunction(template, `templates.${name}`, "(data) => ({ subject, textBody })")];
    }),
  );
}

interface Sender {
  transport: MailTransport;
  from: Address;
  templates: ReadonlyMap<string, Template<never>>;
  /** Those of packs. */
  sealed: ReadonlyMap<string, OnTemplateFailed<never>>;
}

async function sendMail(context: RunContext<StoredInput>, sender: Sender): Promise<SendOutput> {
  let onFailed: TemplateMessage["onFailed"];
  try {
    const built = await build(context, sender);
    if ("skip" in built) return { skipped: true, reason: built.skip };
    const { onSent, onFailed: given, ...message } = built;
    onFailed = given;
    const { id, accepted, rejected } = await deliver(message, context, sender);
    await onSent?.({ id, accepted, rejected });
    return { messageId: id, accepted, rejected };
  } catch (error) {
    // The error of the mail is the one that matters.
    if (isFinal(error, context)) await reportFailure(error, context, { onFailed, sender }).catch(() => {});
    throw error;
  }
}

async function reportFailure(
  error: unknown,
  { input: { template = "", data }, job: { id: jobId } }: RunContext<StoredInput>,
  { onFailed, sender }: { onFailed: TemplateMessage["onFailed"]; sender: Sender },
): Promise<void> {
  await sender.sealed.get(template)?.(data as never, { jobId, error });
  await onFailed?.(error);
}

/** The fields of the message, not checked yet. */
async function build(context: RunContext<StoredInput>, { templates }: Sender): Promise<TemplateMessage | Skip> {
  const { template: name, data, ...given } = context.input;
  if (name === undefined) return given as TemplateMessage;
  const template = templates.get(name) as Template<unknown> | undefined;
  if (template === undefined) throw new Error(`there is no template ${show(name)} in this process`);
  const { idempotencyKey, signal, hf, job: running } = context;
  const result = await untilAborted(
    template(data, { jobId: running.id, idempotencyKey, attempt: running.attempt, signal, hf }),
    signal,
  );
  return "skip" in result ? result : { ...result, ...(given as Partial<TemplateMessage>) };
}

async function deliver(
  message: object,
  { input, idempotencyKey, signal, job: running }: RunContext<StoredInput>,
  { transport, from }: Sender,
): Promise<SentMail> {
  const complete = input.template === undefined ? (message as MessageFields) : checked(input.template, message);
  const sending = transport.send(outgoing(complete, from), {
    idempotencyKey,
    signal,
    jobId: running.id,
    // Not the number of the attempt: that of a worker that crashed early may not count, and a retry by an operator begins at 1.
    mayBeSent: running.fence > 1,
  });
  const sent = await untilAborted(sending, signal);
  checkSent(sent);
  if (sent.accepted.length === 0) throw new NotRetryable("the mail server refused all recipients");
  return sent;
}

/** A transport that returned will do the same again, and may have sent the mail: so it is not repeated. */
function checkSent(sent: Partial<SentMail> | null | undefined): void {
  if (typeof sent?.id === "string" && Array.isArray(sent.accepted) && Array.isArray(sent.rejected)) return;
  throw new NotRetryable("the transport did not return { id, accepted, rejected }; the mail may have been sent");
}

/** A template that returns an invalid message will return it again. */
function checked(name: string, message: object): MessageFields {
  try {
    return readMessage(message);
  } catch (error) {
    throw new NotRetryable(`the template ${show(name)} returned an invalid message: ${(error as Error).message}`);
  }
}
