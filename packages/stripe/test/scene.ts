import { holdfast, type Holdfast } from "holdfast";
import type { PostgresClient, PostgresPool, SqliteDatabase } from "holdfast/pack";
import Stripe from "stripe";
import { onTestFinished } from "vitest";
import type { PackDatabase } from "../../holdfast/test/pack/scene.js";
import { stripe, type EffectContext, type StripeEvent, type StripeObject, type StripePack } from "../dist/index.js";

export const SECRET = "whsec_test_secret";
export const sdk: Stripe = new Stripe("sk_test_123");

let made = 0;

/** An event as Stripe sends it. */
export function invoicePaid(changes: Partial<StripeEvent> & { customer?: string } = {}): StripeEvent {
  const { customer = "cus_1", ...fields } = changes;
  const object: StripeObject = { object: "invoice", id: "in_1", customer, amount_paid: 1_000 };
  return {
    id: `evt_${++made}`,
    object: "event",
    type: "invoice.paid",
    created: Math.floor(Date.now() / 1_000),
    livemode: false,
    api_version: "2026-01-01",
    data: { object },
    ...fields,
  } as StripeEvent;
}

export interface Signing {
  secret?: string;
  /** Seconds since 1970. */
  timestamp?: number;
  /** Sent instead of what was signed. */
  body?: string;
}

/** A request signed by Stripe's own library. */
export function signed(event: object | string, { secret = SECRET, timestamp, body }: Signing = {}): Request {
  // Indented, as Stripe sends it.
  const payload = typeof event === "string" ? event : JSON.stringify(event, null, 2);
  const header = sdk.webhooks.generateTestHeaderString({
    payload,
    secret,
    ...(timestamp !== undefined && { timestamp }),
  });
  return new Request("http://localhost/webhooks/stripe", {
    method: "POST",
    headers: { "stripe-signature": header },
    body: body ?? payload,
  });
}

type Tx = PostgresClient | SqliteDatabase;
export type TestEffect = (event: StripeEvent, context: EffectContext<Tx>) => unknown;

export interface TestOptions {
  on?: Record<string, TestEffect | { load: unknown; apply: unknown }>;
  [option: string]: unknown;
}

/** A pack on a test's database, whichever it is. */
export function packOn(
  given: PackDatabase,
  { on = { "invoice.paid": record }, ...options }: TestOptions = {},
): StripePack {
  return stripe({
    db: given.db as unknown as PostgresPool,
    webhookSecrets: SECRET,
    on: on as Record<string, TestEffect>,
    onError: (error) => expectNoError(error),
    ...options,
  });
}

function expectNoError(error: unknown): never {
  throw error;
}

export interface Scene {
  pack: StripePack;
  hf: Holdfast;
  /** Sends an event, and returns the status and the body of the response. */
  send: (request: Request) => Promise<{ status: number; body: unknown }>;
}

/** A pack with its table, the table of {@link record}, and a client. */
export async function openScene(given: PackDatabase, options: TestOptions = {}): Promise<Scene> {
  const pack = packOn(given, options);
  await given.query("CREATE TABLE IF NOT EXISTS paid (event text, customer text)");
  const hf = await openClient(given, pack);
  await pack.install(hf);
  const route = pack.webhook(hf);
  return {
    pack,
    hf,
    async send(request) {
      const response = await route(request);
      return { status: response.status, body: await response.json() };
    },
  };
}

export async function openClient(given: PackDatabase, pack: StripePack): Promise<Holdfast> {
  const hf = await holdfast({
    store: given.store(),
    jobs: pack.jobs,
    retry: { backoff: { base: 0, jitter: 0 } },
    logger: false,
  });
  onTestFinished(() => hf.close());
  return hf;
}

/** An effect that can be counted: one row each time. */
export function record(event: StripeEvent, { tx }: EffectContext<Tx>): unknown {
  const values = [event.id, String(event.data.object["customer"])];
  if ("prepare" in tx) return void tx.prepare("INSERT INTO paid VALUES (?, ?)").run(...values);
  return tx.query("INSERT INTO paid VALUES ($1, $2)", values);
}

/** The events whose effect happened, as often as it happened. */
export async function effects(given: PackDatabase): Promise<unknown[]> {
  return (await given.query("SELECT event FROM paid ORDER BY event")).map(({ event }) => event);
}
