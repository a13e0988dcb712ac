import { randomBytes } from "node:crypto";
import { InvalidOptionError, type Duration, type Holdfast, type JobType, type Logger } from "holdfast";
import { optionKeys, refuseUnknown, show, type PostgresClient, type SqliteDatabase } from "holdfast/pack";
import type { MailPack } from "../mail.js";
import {
  readClient,
  readFunction,
  readPort,
  readPositiveDuration,
  readStorage,
  type StorageOptions,
  type WallClock,
} from "../options.js";
import type { TemplateContext, TemplateMessage } from "../templates.js";
import type { ResetRecords } from "./records.js";
import { resetRequests, sha256, type ResetRequestOptions, type ResetRequestResult, type ResetData } from "./request.js";
import { resetRoute } from "./route.js";
import { sqlRecords } from "./sql-records.js";

/** A user of the application, as far as a password reset needs it. It may have more fields, for the message. */
export interface ResetUser {
  readonly id: string;
  readonly email: string;
}

/** Finds users. */
export interface ResetUsers<User extends ResetUser> {
  /** The user with this address, or null. Takes the address as it was typed, without spaces around it. */
  byEmail(email: string, signal: AbortSignal): User | null | Promise<User | null>;
  /** The user with this id, or null. */
  byId(id: string, signal: AbortSignal): User | null | Promise<User | null>;
}

/** What the message of a password reset is built from. */
export interface ResetMessage<User extends ResetUser> {
  readonly user: User;
  /** With the token. */
  readonly link: string;
  readonly expiresAt: Date;
}

/** Options of {@link passwordReset}. */
export interface PasswordResetOptions<User extends ResetUser> extends StorageOptions<ResetRecords> {
  /** What `mail()` returned. */
  mail: MailPack;
  users: ResetUsers<User>;
  /** The address of the page on which the user sets the new password. */
  link: (token: string, user: User) => string;
  /** Builds the mail. Default: a short English one. */
  message?: (
    given: ResetMessage<User>,
    context: Pick<TemplateContext, "signal">,
  ) => Omit<TemplateMessage, "to"> | Promise<Omit<TemplateMessage, "to">>;
  /** How long a token is valid, counted from the request. A mail that could not be sent by then is not sent. Default `"1h"`. */
  ttl?: Duration;
  /** Requests for one address in an hour. Default 5. */
  limit?: number;
  /** Gets the errors of the route. Default: standard error. */
  logger?: Pick<Logger, "error">;
  /** Default: the system's. */
  clock?: WallClock;
}

/** What {@link passwordReset} returns. */
export interface PasswordReset {
  /** None: a reset is a job `email.send` of the mail pack. */
  readonly jobs: readonly JobType[];
  /** Creates the tables. Call it at every start. */
  install(hf: Holdfast): Promise<void>;
  /** The handler of `POST /password-reset/request`, with `{ "email": "…" }` as JSON or as a form. */
  request(hf: Holdfast): (request: Request) => Promise<Response>;
  /**
   * Requests a reset for an address as it was typed: for your own form. The result is the same whether or not the address has an
   * account. Throws if the database fails.
   */
  requestFor(hf: Holdfast, email: string, options?: ResetRequestOptions): Promise<ResetRequestResult>;
  /** Uses up a token. Returns the id of its user; null if the token is wrong, used or expired. */
  consume(token: string): Promise<string | null>;
  /** The same in your transaction, with which the new password is stored. On SQLite it returns no promise. */
  consumeIn(tx: SqliteDatabase, token: string): string | null;
  consumeIn(tx: PostgresClient, token: string): Promise<string | null>;
  consumeIn(tx: unknown, token: string): string | null | Promise<string | null>;
  /** Deletes the tokens of a user, who has changed the password or the address in another way. */
  revoke(user: string): Promise<void>;
  /** The same in your transaction. On SQLite it returns no promise. */
  revokeIn(tx: SqliteDatabase, user: string): void;
  revokeIn(tx: PostgresClient, user: string): Promise<void>;
  revokeIn(tx: unknown, user: string): void | Promise<void>;
}

const OPTIONS = optionKeys<PasswordResetOptions<ResetUser>>({
  mail: true,
  users: true,
  db: true,
  records: true,
  schema: true,
  link: true,
  message: true,
  ttl: true,
  limit: true,
  logger: true,
  clock: true,
});

const METHODS = ["install", "request", "newest", "create", "consume", "consumeIn", "revoke", "revokeIn"];

const TEMPLATE = "password-reset";
const TOKEN_BYTES = 32;
const HOUR_MS = 3_600_000;
const MAX_TTL_MS = 7 * 24 * HOUR_MS;
const MAX_LIMIT = 100;

const stderr: Pick<Logger, "error"> = {
  error: (fields, message) => console.error(message, ...Object.values(fields)),
};

/**
 * Password resets by mail: a route that requests one, a job that sends the link, and one-time tokens of which only a hash is stored.
 *
 * ```ts
 * const reset = passwordReset({ mail: post, users, db, link: (token) => `https://club.example/reset?token=${token}` });
 * await reset.install(hf);
 * app.post("/password-reset/request", ({ req }) => requestReset(req.raw)); // requestReset = reset.request(hf)
 * ```
 */
export function passwordReset<User extends ResetUser>(options: PasswordResetOptions<User>): PasswordReset {
  refuseUnknown(options, OPTIONS, "passwordReset");
  const { message = defaultMessage, clock = { now: () => Date.now() } } = options;
  const mail = readPort(options.mail, "mail", ["addTemplate"], "pass what mail({ … }) returned");
  const users = readPort(options.users, "users", ["byEmail", "byId"], "it finds your users");
  const link = readFunction(options.link, "link", "(token) => `https://club.example/reset?token=${token}`");
  readFunction(message, "message", "({ link }) => ({ subject, textBody })");
  const ttlMs = readTtl(options.ttl ?? HOUR_MS);
  const limit = readLimit(options.limit ?? 5);
  const storage = readStorage(options, { sql: sqlRecords, methods: METHODS });
  const { records } = storage;
  const logger = readPort(options.logger ?? stderr, "logger", ["error"], "pass a logger such as pino's");
  const now = (): Date => new Date(clock.now());
  const requestFor = resetRequests({ mail, template: TEMPLATE, users, records, limit, perMs: HOUR_MS, ttlMs, clock });

  mail.addTemplate(TEMPLATE, async ({ user: id, expiresAt: until }: ResetData, { jobId, signal }) => {
    // Each request has a job, and of those that wait for a user the newest sends a mail.
    if ((await records.newest(id)) !== jobId) return { skip: "the reset was requested again" };
    const user = (await users.byId(id, signal)) as User | null | undefined;
    if (user === null || user === undefined) return { skip: "the user does not exist" };
    const token = randomBytes(TOKEN_BYTES).toString("base64url");
    const expiresAt = new Date(until);
    await records.create({ hash: sha256(token), user: id, now: now(), expiresAt });
    return { ...(await message({ user, link: link(token, user), expiresAt }, { signal })), to: user.email };
  });

  return Object.freeze({
    jobs: Object.freeze([]),
    async install(hf: Holdfast) {
      readClient(hf);
      await storage.install(hf, mail.send);
    },
    request(hf: Holdfast) {
      readClient(hf);
      return resetRoute({ requestReset: (email, signal) => requestFor(hf, email, { signal }), logger });
    },
    async requestFor(hf: Holdfast, email: string, given: ResetRequestOptions = {}) {
      readClient(hf);
      return requestFor(hf, email, given);
    },
    consume: async (token: string) => records.consume(sha256(String(token)), now()),
    consumeIn: ((tx: unknown, token: string) =>
      records.consumeIn(tx, sha256(String(token)), now())) as PasswordReset["consumeIn"],
    revoke: async (user: string) => records.revoke(user),
    revokeIn: ((tx: unknown, user: string) => records.revokeIn(tx, user)) as PasswordReset["revokeIn"],
  });
}

function defaultMessage({ link, expiresAt }: ResetMessage<ResetUser>): Omit<TemplateMessage, "to"> {
  const until = `${expiresAt.toISOString().slice(0, 16).replace("T", " ")} UTC`;
  return {
    subject: "Reset your password",
    textBody: [
      "Open this link to choose a new password:",
      link,
      `The link works once, until ${until}.`,
      "If you did not ask for it, ignore this mail. Your password has not changed.",
    ].join("\n\n"),
    tag: TEMPLATE,
  };
}

function readTtl(ttl: Duration): number {
  const ms = readPositiveDuration(ttl, "ttl");
  if (ms > MAX_TTL_MS) throw new InvalidOptionError("ttl", "must be at most 7 days");
  return ms;
}

function readLimit(limit: number): number {
  if (Number.isInteger(limit) && limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw new InvalidOptionError("limit", `${show(limit)} is not a whole number from 1 to ${MAX_LIMIT}`);
}
