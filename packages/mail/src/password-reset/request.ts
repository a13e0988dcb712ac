import { createHash, randomUUID } from "node:crypto";
import { InvalidOptionError, type EnqueueOptions, type Holdfast } from "holdfast";
import { optionKeys, refuseUnknown } from "holdfast/pack";
import { isAddress } from "../address.js";
import { untilAborted } from "../attempt.js";
import type { MailPack } from "../mail.js";
import type { WallClock } from "../options.js";
import type { ResetUser, ResetUsers } from "./password-reset.js";
import type { ResetRecords } from "./records.js";

/** Options of `requestFor`. */
export interface ResetRequestOptions {
  /** Ends the search for the user, for example because the client has disconnected. */
  signal?: AbortSignal;
}

/**
 * What became of a request for a password reset.
 *
 * - `accepted`: if the address has an account, it gets a mail
 * - `limited`: there were too many requests for this address; the next one is accepted after `retryAfterMs`
 * - `invalid`: it is not an address such as `ada@example.com`
 */
export type ResetRequestResult =
  | { readonly status: "accepted" }
  | { readonly status: "limited"; readonly retryAfterMs: number }
  | { readonly status: "invalid" };

/** The data of the job: no address, no token. */
export interface ResetData {
  user: string;
  expiresAt: string;
}

export type RequestFor = (hf: Holdfast, email: string, options: ResetRequestOptions) => Promise<ResetRequestResult>;

interface Parts {
  readonly mail: MailPack;
  readonly template: string;
  readonly users: ResetUsers<ResetUser>;
  readonly records: ResetRecords;
  readonly limit: number;
  readonly perMs: number;
  readonly ttlMs: number;
  readonly clock: WallClock;
}

const OPTIONS = optionKeys<ResetRequestOptions>({ signal: true });
/** How long a request may take to find its user. */
const LOOKUP_MS = 10_000;

/**
 * Requests resets. It does the same for an address that has no account, so that its time does not show which it is. So the job has no unique
 * key either: to replace a job that waits takes more statements than to insert one, and only an account can have such a job.
 */
export function resetRequests({ mail, template, users, records, limit, perMs, ttlMs, clock }: Parts): RequestFor {
  return async (hf, typed, options) => {
    refuseUnknown(options, OPTIONS, "requestFor");
    const email = typeof typed === "string" ? typed.trim() : "";
    if (!isAddress(email)) return { status: "invalid" };
    const late = AbortSignal.timeout(LOOKUP_MS);
    const signal = options.signal === undefined ? late : AbortSignal.any([options.signal, late]);
    const user = readUser(await untilAborted(users.byEmail(email, signal), signal));
    // For an unknown address, the same is done for a user that does not exist, and undone.
    const [id, jobId] = [user?.id ?? randomUUID(), randomUUID()];
    const now = new Date(clock.now());
    const expiresAt = new Date(now.getTime() + ttlMs);
    const data: ResetData = { user: id, expiresAt: expiresAt.toISOString() };
    const job: EnqueueOptions = { id: jobId, expiresAt };
    const request = {
      address: sha256(email.toLowerCase()),
      now,
      limit,
      perMs,
      user: id,
      jobId,
      // A job that waits for longer than the limit counts must still find whether it is the newest.
      expiresAt: new Date(now.getTime() + Math.max(perMs, ttlMs)),
      keep: user !== null,
    };
    const retryAt = await records.request(request, (tx) =>
      hf.enqueue(mail.send, { template, data }, tx === undefined ? job : { ...job, tx }),
    );
    if (retryAt === null) return { status: "accepted" };
    return { status: "limited", retryAfterMs: Math.max(1, retryAt.getTime() - clock.now()) };
  };
}

/** Undefined, as from `get` of better-sqlite3, is no user either. A number would be another text in the database: 5 is `5.0` on SQLite. */
function readUser(user: ResetUser | null | undefined): ResetUser | null {
  if (user === null || user === undefined) return null;
  if (typeof user.id === "string" && user.id !== "") return user;
  throw new InvalidOptionError("users", "byEmail returned a user whose id is not a non-empty string");
}

/** Addresses and tokens are stored as hashes only. */
export function sha256(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}
