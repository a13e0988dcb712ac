import { randomBytes } from "node:crypto";
import type Stripe from "stripe";

/** A payment that a visitor was sent to. */
export interface Checkout {
  readonly id: string;
  readonly price: string;
  readonly email: string;
  readonly metadata: Stripe.Metadata;
  readonly successUrl: string;
  readonly cancelUrl: string;
}

/** An event as Stripe sends it. */
export interface StripeEventBody {
  readonly id: string;
  readonly object: "event";
  readonly type: string;
  readonly created: number;
  readonly livemode: boolean;
  readonly api_version: string;
  readonly data: { readonly object: object };
}

const API_VERSION = "2026-01-01";

export function newEvent(type: string, object: object): StripeEventBody {
  return {
    id: newId("evt"),
    object: "event",
    type,
    created: seconds(),
    livemode: false,
    api_version: API_VERSION,
    data: { object },
  };
}

/** The fields of a subscription that the site reads, as Stripe has them. */
export function subscriptionOf({ price, metadata }: Checkout): Stripe.Subscription {
  return {
    id: newId("sub"),
    object: "subscription",
    customer: newId("cus"),
    status: "active",
    created: seconds(),
    metadata,
    items: { object: "list", data: [{ id: newId("si"), price: { id: price } }] },
  } as unknown as Stripe.Subscription;
}

export function invoiceOf({ id, customer, metadata }: Stripe.Subscription, cents: number): object {
  return {
    id: newId("in"),
    object: "invoice",
    customer,
    status: "paid",
    amount_paid: cents,
    currency: "eur",
    parent: { type: "subscription_details", subscription_details: { subscription: id, metadata } },
  };
}

function newId(prefix: string): string {
  return `${prefix}_${randomBytes(9).toString("hex")}`;
}

function seconds(): number {
  return Math.floor(Date.now() / 1_000);
}
