import type { Logger } from "holdfast";

/** The memberships that the site sells. Each is an entitlement, and gives a role on Discord. */
export const PLANS = {
  reader: { name: "Reader", price: "€5 a month", about: "Every essay, and the readers’ channel on Discord." },
  patron: { name: "Patron", price: "€15 a month", about: "The same, a printed yearbook, and our thanks." },
} as const;

export type Plan = keyof typeof PLANS;

export function isPlan(value: unknown): value is Plan {
  return typeof value === "string" && Object.hasOwn(PLANS, value);
}

/** What differs between this machine and production. A real site reads it from its environment. */
export interface SiteConfig {
  /** The SQLite file with the members of the site and its jobs. */
  readonly file: string;
  readonly port: number;
  /** Default: warnings and errors on standard error. */
  readonly logger?: Logger;
  readonly smtpUrl: string;
  readonly stripe: {
    readonly secretKey: string;
    readonly webhookSecret: string;
    /** The id of the price of each plan. */
    readonly prices: Readonly<Record<Plan, string>>;
    /** The address of Stripe's API. Leave it out for the real one. */
    readonly api?: { host: string; port: number; protocol: "http" };
    /** Where the pages of Stripe Checkout are: `https://checkout.stripe.com`. */
    readonly checkout: string;
  };
  readonly discord: {
    readonly token: string;
    readonly guild: string;
    /** The id of the role of each plan. */
    readonly roles: Readonly<Record<Plan, string>>;
    readonly api: string;
  };
}
