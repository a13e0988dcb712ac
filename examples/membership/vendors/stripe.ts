import { randomBytes } from "node:crypto";
import { Hono } from "hono";
import { html } from "hono/html";
import Stripe from "stripe";
import { listen } from "../listen.js";
import type { SiteConfig } from "../site/config.js";
import { vendorPage } from "./page.js";
import { invoiceOf, newEvent, subscriptionOf, type Checkout, type StripeEventBody } from "./stripe-objects.js";

/** What the site responded to an event. */
export interface Delivered {
  readonly status: number;
  readonly ms: number;
}

/** A server that speaks the part of Stripe's API that the site uses, has a payment page, and sends signed events. */
export interface StripeServer {
  readonly url: string;
  readonly config: SiteConfig["stripe"];
  /** Where events are sent. */
  sendTo(url: string): void;
  /** Sends an event, as Stripe does when it repeats one. With `secret`: as someone does who does not know the secret. */
  send(event: StripeEventBody, options?: { secret?: string }): Promise<Delivered>;
  /** All events so far, with the response to the first delivery. */
  readonly sent: readonly { event: StripeEventBody; delivered: Delivered }[];
  close(): Promise<void>;
}

const PRICES = { reader: "price_reader", patron: "price_patron" };
const CENTS: Readonly<Record<string, number>> = { [PRICES.reader]: 500, [PRICES.patron]: 1_500 };

export async function startStripe(): Promise<StripeServer> {
  const secretKey = `sk_test_${randomBytes(12).toString("hex")}`;
  const webhookSecret = `whsec_${randomBytes(24).toString("hex")}`;
  const sdk = new Stripe(secretKey);
  const server = await listen();
  const checkouts = new Map<string, Checkout>();
  const subscriptions = new Map<string, Stripe.Subscription>();
  const sent: { event: StripeEventBody; delivered: Delivered }[] = [];
  const sending = new Set<Promise<void>>();
  let endpoint: string | null = null;

  async function send(event: StripeEventBody, { secret = webhookSecret } = {}): Promise<Delivered> {
    if (endpoint === null) throw new Error("no address for events is set");
    const payload = JSON.stringify(event, null, 2);
    // The test helper of Stripe's own library.
    const signature = sdk.webhooks.generateTestHeaderString({ payload, secret });
    const start = performance.now();
    const response = await fetch(endpoint, {
      method: "POST",
      headers: { "content-type": "application/json", "stripe-signature": signature },
      body: payload,
    });
    await response.arrayBuffer();
    return { status: response.status, ms: performance.now() - start };
  }

  /** Sends events without keeping the payer waiting. */
  function emit(...events: StripeEventBody[]): void {
    for (const event of events) {
      const delivery = send(event)
        .then((delivered) => void sent.push({ event, delivered }))
        .catch((error: unknown) => console.error("an event could not be delivered", error))
        .finally(() => sending.delete(delivery));
      sending.add(delivery);
    }
  }

  const app = new Hono();
  app.use("/v1/*", async (c, next) => {
    if (c.req.header("authorization") !== `Bearer ${secretKey}`)
      return c.json({ error: { message: "Invalid key" } }, 401);
    return next();
  });
  app.post("/v1/checkout/sessions", async (c) => {
    const form = new URLSearchParams(await c.req.text());
    const id = `cs_test_${randomBytes(12).toString("hex")}`;
    checkouts.set(id, {
      id,
      price: form.get("line_items[0][price]") ?? "",
      email: form.get("customer_email") ?? "",
      metadata: { member: form.get("subscription_data[metadata][member]") ?? "" },
      successUrl: form.get("success_url") ?? "",
      cancelUrl: form.get("cancel_url") ?? "",
    });
    return c.json({ id, object: "checkout.session", url: `${server.url}/pay/${id}` });
  });
  app.get("/v1/subscriptions/:id", (c) => {
    const found = subscriptions.get(c.req.param("id"));
    return found === undefined ? c.json(MISSING, 404) : c.json(found);
  });
  app.delete("/v1/subscriptions/:id", (c) => {
    const found = subscriptions.get(c.req.param("id"));
    if (found === undefined) return c.json(MISSING, 404);
    const ended: Stripe.Subscription = { ...found, status: "canceled" };
    subscriptions.set(ended.id, ended);
    emit(newEvent("customer.subscription.deleted", ended));
    return c.json(ended);
  });

  app.get("/pay/:id", (c) => {
    const checkout = checkouts.get(c.req.param("id"));
    if (checkout === undefined) return c.notFound();
    const { email, price, cancelUrl } = checkout;
    return c.html(
      vendorPage(
        "Pay",
        html`<p>
            ${email} pays €${((CENTS[price] ?? 0) / 100).toFixed(2)} a month. No money moves: this page stands in for
            Stripe.
          </p>
          <form method="post"><button>Pay</button></form>
          <p class="aside"><a href="${cancelUrl}">Back</a></p>`,
      ),
    );
  });
  app.post("/pay/:id", (c) => {
    const checkout = checkouts.get(c.req.param("id"));
    if (checkout === undefined) return c.notFound();
    checkouts.delete(checkout.id);
    const subscription = subscriptionOf(checkout);
    subscriptions.set(subscription.id, subscription);
    const invoice = invoiceOf(subscription, CENTS[checkout.price] ?? 0);
    emit(newEvent("customer.subscription.created", subscription), newEvent("invoice.paid", invoice));
    return c.redirect(checkout.successUrl, 303);
  });

  server.handle(app.fetch);
  const { hostname, port } = new URL(server.url);
  return {
    url: server.url,
    config: {
      secretKey,
      webhookSecret,
      prices: PRICES,
      api: { host: hostname, port: Number(port), protocol: "http" },
      checkout: server.url,
    },
    sendTo: (url) => void (endpoint = url),
    send,
    sent,
    async close() {
      await Promise.all(sending);
      await server.close();
    },
  };
}

const MISSING = { error: { type: "invalid_request_error", code: "resource_missing", message: "No such object" } };
