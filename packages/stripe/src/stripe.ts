import { InvalidOptionError, type JobType } from "holdfast";
import {
  checkTransactions,
  database,
  optionKeys,
  refuseUnknown,
  systemClock,
  type Clock,
  type TransactionClient,
} from "holdfast/pack";
import { readApi, type StripeClient } from "./api.js";
import { readEffects, type AnyDb, type Effects, type TransactionOf } from "./effects.js";
import type { AnyStripeEvent, EventFilter, StripeEvent } from "./event.js";
import { processJob, type PackParts, type ProcessInput, type ProcessOutput } from "./process.js";
import { EventRecords } from "./records.js";
import { replayEvent, type ReplayClient, type ReplayOptions, type ReplayResult } from "./replay.js";
import type { EnqueueClient } from "./store-event.js";
import { webhookRoute } from "./webhook.js";

/** Options of `stripe()`. */
export type StripeOptions<Event extends AnyStripeEvent = StripeEvent, Db extends AnyDb = undefined> = CommonOptions<
  Event,
  TransactionOf<Db>
> &
  (undefined extends Db ? { db?: undefined } : DatabaseOption<Db>);

/** The database of a pack. */
export interface DatabaseOption<Db> {
  /**
   * The database that holds the jobs: a better-sqlite3 database, or a pool of `pg`. An event and its job are then stored in one
   * transaction, and an effect, its mark and the completion of the job in another. Omit it for jobs on DynamoDB.
   */
  db: Db;
}

/** The options besides the database. */
export interface CommonOptions<Event extends AnyStripeEvent, Tx> extends EventFilter {
  /** The PostgreSQL schema of the table. Default `"public"`. */
  schema?: string;
  /** The signing secrets of the endpoint. While a secret is rotated, the old one and the new one. */
  webhookSecrets: string | readonly string[];
  /** What to do, by type of event. Events of other types are stored and ignored. */
  on: Effects<Event, Tx>;
  /** For `latest()`, and for replays of events that never arrived: a secret key, or a client of the stripe package. */
  api?: string | StripeClient;
  /** Before the name of the job type, of the table, and of unique keys: for two packs on one database. */
  prefix?: string;
  /** Called if an event could not be stored. Default: a line on stderr. */
  onError?: (error: unknown) => void;
  /** For tests. */
  clock?: Clock;
}

/** What `stripe()` returns. */
export interface StripePack {
  /** The job type: `stripe.webhook.process`. */
  readonly process: JobType<ProcessInput, ProcessOutput>;
  /** Pass them to `holdfast({ jobs })`. */
  readonly jobs: readonly JobType[];
  /** Creates or updates the table, and checks that the jobs of the client are in the same database. Call it at every start. */
  install(hf?: TransactionClient): Promise<void>;
  /** The route that Stripe calls: `app.post("/webhooks/stripe", (c) => route(c.req.raw))`. */
  webhook(hf: EnqueueClient): (request: Request) => Promise<Response>;
  /** Processes an event that was not processed: its job is dead, its type had no effect, or it never arrived. */
  replay(hf: ReplayClient, eventId: string, options?: ReplayOptions): Promise<ReplayResult>;
}

type AllOptions = CommonOptions<AnyStripeEvent, unknown> & Partial<DatabaseOption<NonNullable<AnyDb>>>;

const OPTION_KEYS = optionKeys<AllOptions>({
  db: true,
  schema: true,
  webhookSecrets: true,
  on: true,
  api: true,
  account: true,
  livemode: true,
  prefix: true,
  onError: true,
  clock: true,
});
const REPLAY_KEYS = optionKeys<ReplayOptions>({ force: true });

/** Finds packs among the exports of a module, also of another copy of this package. */
const BRAND = Symbol.for("holdfast.stripe");

/** Whether a value is what `stripe()` returned. */
export function isStripePack(value: unknown): value is StripePack {
  return typeof value === "object" && value !== null && BRAND in value;
}

/**
 * Stripe webhooks: a route that verifies and stores events, and a job that processes each once.
 *
 * ```ts
 * const payments = stripe({
 *   db: pool,
 *   webhookSecrets: process.env.STRIPE_WEBHOOK_SECRET!,
 *   on: { "invoice.paid": (event, { tx }) => tx.query("UPDATE …", [event.data.object.customer]) },
 * });
 * ```
 *
 * For typed events pass the type of the stripe package, and that of the database: `stripe<Stripe.Event, typeof db>({ db, … })`.
 */
export function stripe<Db extends AnyDb = undefined>(options: StripeOptions<StripeEvent, Db>): StripePack;
export function stripe<Event extends AnyStripeEvent, Db extends AnyDb = undefined>(
  options: StripeOptions<Event, Db>,
): StripePack;
export function stripe(given: object): StripePack {
  refuseUnknown(given, OPTION_KEYS, "stripe");
  const options = given as AllOptions;
  const { prefix = "", onError = writeError } = options;
  const parts = { ...readParts(options), type: `${readPrefix(prefix)}stripe.webhook.process` };
  const process = processJob(parts);
  const route = webhookRoute(parts, process, {
    secrets: readSecrets(options.webhookSecrets),
    onError: safely(onError),
  });
  const pack: StripePack = {
    process,
    jobs: [process],
    async install(hf) {
      if (parts.store === null) return;
      if (hf !== undefined) await checkTransactions(parts.store.db, hf, process);
      await parts.store.records.install();
    },
    webhook: route,
    async replay(hf, eventId, given = {}) {
      refuseUnknown(given, REPLAY_KEYS, "replay");
      if (typeof eventId !== "string" || !/^[\w.-]{1,255}$/.test(eventId)) {
        throw new InvalidOptionError("eventId", "must be the id of an event, such as evt_1MqqbKLt4dXK03v5qaIbiNCC");
      }
      return replayEvent(parts, process, hf, eventId, given);
    },
  };
  return Object.freeze(Object.defineProperty(pack, BRAND, { value: true }));
}

function readParts(options: AllOptions): Omit<PackParts, "type"> {
  const { db: given, schema, prefix = "", account, livemode, clock = systemClock } = options;
  // An unset variable must not silently mean that there is no database.
  if ("db" in options && given === undefined)
    throw new InvalidOptionError("db", "is undefined; omit it for no database");
  if (livemode !== undefined && typeof livemode !== "boolean") {
    throw new InvalidOptionError("livemode", "must be true or false");
  }
  if (account != null && !/^acct_\w+$/.test(account)) {
    throw new InvalidOptionError("account", "must be the id of a connected account, such as acct_123, or null");
  }
  const db = given === undefined ? null : database(given, schema === undefined ? {} : { schema });
  const tables = `${prefix.replaceAll(/\W/g, "_")}stripe_`;
  return {
    effects: readEffects(options.on),
    keyPrefix: prefix,
    filter: { ...(account !== undefined && { account }), ...(livemode !== undefined && { livemode }) },
    api: readApi(options.api),
    clock,
    store: db === null ? null : { db, records: new EventRecords(db, tables) },
  };
}

function readPrefix(prefix: unknown): string {
  if (typeof prefix === "string" && /^[\w.:-]{0,30}$/.test(prefix)) return prefix;
  throw new InvalidOptionError("prefix", "must have at most 30 letters, digits, dots, hyphens and underscores");
}

function readSecrets(given: unknown): readonly string[] {
  const secrets: unknown[] = Array.isArray(given) ? given : [given];
  if (secrets.length === 0 || secrets.length > 10) {
    throw new InvalidOptionError("webhookSecrets", "must be a secret, or an array of 1 to 10 secrets");
  }
  return secrets.map((secret, at) => {
    const field = Array.isArray(given) ? `webhookSecrets.${at}` : "webhookSecrets";
    // With an empty secret, everyone could sign.
    if (typeof secret === "string" && /^\S{8,}$/.test(secret)) return secret;
    throw new InvalidOptionError(field, "must be a signing secret of Stripe, such as whsec_…, without spaces");
  });
}

/** The route responds, whatever the callback does. */
function safely(onError: (error: unknown) => unknown): (error: unknown) => void {
  if (typeof onError !== "function") throw new InvalidOptionError("onError", "must be a function");
  return (error) => {
    new Promise((resolve) => resolve(onError(error))).catch(() => {});
  };
}

function writeError(error: unknown): void {
  const message = error instanceof Error ? error.message : "unknown error";
  process.stderr.write(`holdfast error: a Stripe event could not be stored: ${JSON.stringify(message)}\n`);
}
