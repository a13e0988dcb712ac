import type { AsJson, HandlerClient } from "holdfast";
import type { Message, Recipients } from "./message.js";
import type { SentMail } from "./transport.js";

/** The second argument of a template. */
export interface TemplateContext {
  readonly jobId: string;
  /** The same in all attempts of the job. */
  readonly idempotencyKey: string;
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** Pass it to your database and to other services. */
  readonly signal: AbortSignal;
  /** Enqueues and reads jobs. */
  readonly hf: HandlerClient;
}

/** What a template returns: a message. `to` may be left out if the enqueue names it. */
export interface TemplateMessage extends Omit<Message, "to"> {
  to?: Recipients;
  /** Called after the transport has accepted the mail, before the job is completed. If it fails, the mail is sent again. */
  onSent?: (sent: SentMail) => void | Promise<void>;
  /** Called if the mail could not be sent and the job will not be retried. */
  onFailed?: (error: unknown) => void | Promise<void>;
}

/** Returned by a template if there is nothing to send, for example because the user was deleted: the job completes with this reason. */
export interface Skip {
  skip: string;
}

/** What a template returns that names the recipients itself. */
export interface AddressedMessage extends TemplateMessage {
  to: Recipients;
}

/**
 * Builds a mail when its job runs, so that only `data` is stored. May be asynchronous. A `Template<Data>` leaves the recipients to the
 * enqueue; a `Template<Data, AddressedMessage>` names them itself.
 */
export type Template<Data, Returned extends TemplateMessage = TemplateMessage> = (
  data: Data,
  context: TemplateContext,
) => Returned | Skip | Promise<Returned | Skip>;

/** Templates by name, as an object, a type or an interface. */
export type Templates<Name extends PropertyKey = string> = { readonly [Key in Name]: Template<never> };

/** Fields of an enqueue that take precedence over what its template returns. */
type Overrides = Partial<Omit<Message, "to" | "subject" | "textBody" | "htmlBody">> & {
  subject?: never;
  textBody?: never;
  htmlBody?: never;
};

/** The data is stored as JSON. A type that JSON changes, such as `Date`, is refused. */
type StoredData<Data> = [Data] extends [AsJson<Data>] ? Data : AsJson<Data>;

type DataOf<Of extends Template<never>> =
  Parameters<Of> extends [infer Data, ...unknown[]]
    ? undefined extends Data
      ? { data?: StoredData<Exclude<Data, undefined>> }
      : { data: StoredData<Data> }
    : { data?: never };

type ToOf<Of extends Template<never>> =
  Exclude<Awaited<ReturnType<Of>>, Skip> extends { to: Recipients } ? { to?: Recipients } : { to: Recipients };

/** An input that names a template. */
export type TemplateInput<Known extends Templates<keyof Known>> = {
  [Name in keyof Known & string]: { template: Name } & DataOf<Known[Name]> & ToOf<Known[Name]> & Overrides;
}[keyof Known & string];

/** The input of `email.send`: a message, or a template with its data. */
export type SendInput<Known extends Templates<keyof Known>> =
  | (Message & { template?: never; data?: never })
  | TemplateInput<Known>;
