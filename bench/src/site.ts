import Database from "better-sqlite3";
import {
  mail,
  newsletter,
  passwordReset,
  type MailTransport,
  type NewsletterPack,
  type Subscriber,
} from "@holdfast/mail";
import { stripe } from "@holdfast/stripe";
import { holdfast, type Holdfast, type JobType, type Store } from "holdfast";
import type { PostgresClient, PostgresPool, SqliteDatabase } from "holdfast/pack";
import { postgres } from "holdfast/postgres";
import pg from "pg";
import type { Payload } from "./jobs.js";

/** A site with the ready-made jobs: what its processes share. */
export interface Site {
  hf: Holdfast;
  news: NewsletterPack;
  /** Its routes, by path. */
  routes: Readonly<Record<string, (request: Request) => Promise<Response>>>;
  close(): Promise<void>;
}

export const RESET_PATH = "/password-reset";
export const STRIPE_PATH = "/webhooks/stripe";
export const STRIPE_SECRET = "whsec_bench_secret";
/** Addresses with this domain have an account. */
export const KNOWN = "@known.example";

interface SiteOptions {
  /** One more type. */
  type?: JobType<Payload, void>;
  subscribers?: () => AsyncIterable<Subscriber>;
}

/** Opens a site whose tables are in the database that holds the jobs. */
export async function openSite(
  url: string,
  { type, subscribers = async function* () {} }: SiteOptions = {},
): Promise<Site> {
  const { db, store, run, end } = openDatabase(url);
  const post = mail({ transport: accepting, from: "Club <hello@club.example>" });
  const reset = passwordReset({
    mail: post,
    db,
    users: {
      byEmail: (email) => (email.endsWith(KNOWN) ? { id: email, email } : null),
      byId: (email) => ({ id: email, email }),
    },
    link: (token) => `https://club.example/reset?token=${token}`,
  });
  const news = newsletter({ mail: post, db, subscribers });
  const payments = stripe({
    db: db as PostgresPool,
    webhookSecrets: STRIPE_SECRET,
    on: { "invoice.paid": ({ id }, { tx }) => insertPayment(tx, id) },
  });
  const jobs = [...post.jobs, ...reset.jobs, ...news.jobs, ...payments.jobs, ...(type === undefined ? [] : [type])];
  const hf = await holdfast({ store, jobs, logger: false });
  for (const pack of [reset, news, payments]) await pack.install(hf);
  await run("CREATE TABLE IF NOT EXISTS payments (event TEXT PRIMARY KEY)");
  return {
    hf,
    news,
    routes: { [RESET_PATH]: reset.request(hf), [STRIPE_PATH]: payments.webhook(hf) },
    async close() {
      await hf.close();
      await end();
    },
  };
}

/** A mail server that accepts everything at once. */
const accepting: MailTransport = {
  send: async ({ to }, { idempotencyKey }) => ({
    id: idempotencyKey,
    accepted: to.map(({ address }) => address),
    rejected: [],
  }),
};

interface Opened {
  db: SqliteDatabase | PostgresPool;
  store: Store | string;
  run: (sql: string) => Promise<unknown>;
  end: () => Promise<void>;
}

function openDatabase(url: string): Opened {
  if (url.startsWith("sqlite:")) {
    const db = new Database(url.slice("sqlite:".length));
    return { db, store: url, run: async (sql) => db.exec(sql), end: async () => void db.close() };
  }
  const pool = new pg.Pool({ connectionString: url });
  return { db: pool, store: postgres({ pool }), run: (sql) => pool.query(sql), end: () => pool.end() };
}

function insertPayment(tx: PostgresClient | SqliteDatabase, event: string): unknown {
  if ("prepare" in tx) return void tx.prepare("INSERT INTO payments VALUES (?)").run(event);
  return tx.query("INSERT INTO payments VALUES ($1)", [event]);
}
