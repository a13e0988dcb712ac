import { show } from "holdfast/pack";
import { z } from "zod";
import { isOneLine, parseAddress, type Address } from "./address.js";
import type { OutgoingMessage } from "./transport.js";

/** One address (`ada@example.com` or `Ada <ada@example.com>`), or several. */
export type Recipients = string | readonly string[];

/** A mail. At least one of `textBody` and `htmlBody` is required. */
export interface Message {
  to: Recipients;
  subject: string;
  textBody?: string;
  htmlBody?: string;
  /** A label for statistics of the mail service. */
  tag?: string;
  /** Default: `from` of the pack. */
  from?: string;
  replyTo?: Recipients;
  cc?: Recipients;
  bcc?: Recipients;
  /** More headers. Those that other fields set are refused. */
  headers?: Readonly<Record<string, string>>;
}

const MAX_RECIPIENTS = 50;
const MAX_SUBJECT = 1_000;
const MAX_TAG = 200;
const MAX_HEADERS = 50;
const MAX_HEADER = 2_000;
// Mail is built from these fields by the transport, or they identify it.
const OWN_HEADERS =
  /^(?:from|to|cc|bcc|reply-to|sender|subject|date|message-id|mime-version|content-.*|received|return-path|dkim-.*|x-holdfast-.*)$/i;
const HEADER_NAME = /^[A-Za-z][A-Za-z0-9-]{0,75}$/;

type Check = { readonly addIssue: (issue: { code: "custom"; path?: PropertyKey[]; message: string }) => void };

const BAD_ADDRESS = "must be an address such as ada@example.com or Ada <ada@example.com>";
const address = z.string().refine((given) => parseAddress(given) !== null, BAD_ADDRESS);
// Checked here and not by the members of the union: the error of a union does not say which address is wrong.
const recipients = z.union([z.string(), z.array(z.string())]).superRefine((given, check: Check) => {
  if (given.length === 0) check.addIssue({ code: "custom", message: "must not be empty" });
  for (const [index, each] of listOf(given).entries()) {
    if (parseAddress(each) !== null) continue;
    check.addIssue({ code: "custom", path: Array.isArray(given) ? [index] : [], message: BAD_ADDRESS });
  }
});
const ONE_LINE = "must be one line without control characters";
const line = (max: number): z.ZodString =>
  z.string().min(1, "must not be empty").max(max, `must have at most ${max} characters`).refine(isOneLine, ONE_LINE);
const body = z.string().min(1, "must not be empty").refine(wellFormed, "must be valid Unicode");

const MESSAGE_FIELDS = {
  to: recipients.optional().describe("An address, or a list of addresses"),
  subject: line(MAX_SUBJECT).optional(),
  textBody: body.optional(),
  htmlBody: body.optional(),
  tag: line(MAX_TAG).optional().describe("A label for statistics of the mail service"),
  from: address.optional(),
  replyTo: recipients.optional(),
  cc: recipients.optional(),
  bcc: recipients.optional(),
  headers: z.record(z.string(), z.string()).superRefine(checkHeaders).optional(),
};

/** The fields of a message as they are parsed, none of them required. */
export interface MessageFields {
  to?: Recipients | undefined;
  subject?: string | undefined;
  textBody?: string | undefined;
  htmlBody?: string | undefined;
  tag?: string | undefined;
  from?: string | undefined;
  replyTo?: Recipients | undefined;
  cc?: Recipients | undefined;
  bcc?: Recipients | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
}

/** The input of `email.send` as it is stored: one object, so that the dashboard can show a form for it. */
export type StoredInput = MessageFields & { template?: string | undefined; data?: unknown };

const MESSAGE_KEYS = Object.keys(MESSAGE_FIELDS) as (keyof MessageFields)[];
/** What a template always returns. */
const BUILT_KEYS = ["subject", "textBody", "htmlBody"] as const;

/** The schema of the input. `templates`: those that are known now; more may be added later. `sealed`: those that take only data. */
export function inputSchema(
  templates: ReadonlyMap<string, unknown>,
  sealed: ReadonlyMap<string, unknown>,
): z.ZodType<StoredInput> {
  const input = z.strictObject({
    ...MESSAGE_FIELDS,
    template: z.string().optional().describe("The name of a template, instead of subject and bodies"),
    data: z.unknown().optional().describe("The data of the template"),
  });
  return input.superRefine((given, check) => {
    const { template } = given;
    const refuse = (field: string, message: string): void => check.addIssue({ code: "custom", path: [field], message });
    if (template === undefined) {
      if (given.data !== undefined) refuse("data", "needs a template");
      return checkMessage(given, check);
    }
    const isSealed = sealed.has(template);
    for (const field of isSealed ? MESSAGE_KEYS : BUILT_KEYS) {
      if (given[field] !== undefined)
        refuse(field, `must not be given with ${isSealed ? "this" : "a"} template, which returns it`);
    }
    if (templates.has(template)) return;
    const known = templates.size === 0 ? "there are none" : `known: ${[...templates.keys()].join(", ")}`;
    refuse("template", `${show(template)} is not a template of this process; ${known}`);
  });
}

/** What a complete message has, and how many addresses. */
function checkMessage(message: MessageFields, check: Check): void {
  const missing = (field: string, problem = "is missing"): void =>
    check.addIssue({ code: "custom", path: [field], message: problem });
  if (message.to === undefined) missing("to");
  if (message.subject === undefined) missing("subject");
  if (message.textBody === undefined && message.htmlBody === undefined) {
    missing("textBody", "is missing; a message needs textBody, htmlBody, or both");
  }
  const { to = [], cc = [], bcc = [] } = message;
  const count = [to, cc, bcc].flatMap(listOf).length;
  if (count > MAX_RECIPIENTS) missing("to", `has, with cc and bcc, ${count} addresses; the limit is ${MAX_RECIPIENTS}`);
}

const complete: z.ZodType<MessageFields> = z
  .strictObject(MESSAGE_FIELDS)
  .superRefine((message, check) => checkMessage(message, check));

/** Checks a message that a template returned. Throws an error with the fields, without their values. */
export function readMessage(given: unknown): MessageFields {
  const { data, error } = complete.safeParse(given);
  if (data !== undefined) return data;
  throw new Error(error.issues.map(({ path, message }) => [...path, message].join(" ")).join("; "));
}

/** A complete message for the transport. */
export function outgoing(message: MessageFields, from: Address): OutgoingMessage {
  return {
    from: message.from === undefined ? from : addressOf(message.from),
    to: addressesOf(message.to),
    cc: addressesOf(message.cc),
    bcc: addressesOf(message.bcc),
    replyTo: addressesOf(message.replyTo),
    subject: message.subject ?? "",
    textBody: message.textBody ?? null,
    htmlBody: message.htmlBody ?? null,
    tag: message.tag ?? null,
    headers: message.headers ?? {},
  };
}

function addressesOf(given: Recipients | undefined): Address[] {
  return listOf(given ?? []).map(addressOf);
}

function addressOf(given: string): Address {
  const address = parseAddress(given);
  if (address === null) throw new Error("an address is invalid");
  return address;
}

function listOf(given: Recipients): readonly string[] {
  return typeof given === "string" ? [given] : given;
}

function checkHeaders(headers: Readonly<Record<string, string>>, check: Check): void {
  const entries = Object.entries(headers);
  if (entries.length > MAX_HEADERS)
    check.addIssue({ code: "custom", message: `must have at most ${MAX_HEADERS} headers` });
  for (const [name, value] of entries) {
    const problem = headerProblem(name, value);
    if (problem !== null) check.addIssue({ code: "custom", path: [name], message: problem });
  }
}

function headerProblem(name: string, value: string): string | null {
  if (!HEADER_NAME.test(name)) return "is not a name of a header";
  if (OWN_HEADERS.test(name)) return "must not be set as a header; use the field of the message, or leave it out";
  if (!isOneLine(value)) return ONE_LINE;
  return value.length > MAX_HEADER ? `must have at most ${MAX_HEADER} characters` : null;
}

function wellFormed(given: string): boolean {
  return given.isWellFormed();
}
