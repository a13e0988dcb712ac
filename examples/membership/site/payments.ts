import { effect, stripe, type StripePack } from "@holdfast/stripe";
import type { Mail } from "@holdfast/mail";
import type { DiscordPack } from "@holdfast/discord";
import type Stripe from "stripe";
import { PLANS, type Plan, type SiteConfig } from "./config.js";
import type { Db } from "./database.js";
import type { MailTemplates } from "./mails.js";
import { isActive, type Membership, type Memberships } from "./memberships.js";

/** What the effects of Stripe's events change. */
export interface PaymentParts {
  readonly config: SiteConfig["stripe"];
  readonly sdk: Stripe;
  readonly db: Db;
  readonly memberships: Memberships;
  readonly post: Mail<MailTemplates>;
  readonly roles: DiscordPack;
}

/**
 * Memberships follow Stripe's events. On SQLite the transaction of an effect is the open transaction of `db`, so everything that the
 * site writes with this connection is part of it: the row, the jobs that follow, the mark of the event and the completion of its job.
 */
export function openPayments({ config, sdk, db, memberships, post, roles }: PaymentParts): StripePack {
  /** Reads the subscription as it is now, because Stripe delivers events in any order. */
  const followSubscription = effect<SubscriptionEvent, Db, Loaded>({
    load: async (event, { latest }) => {
      const version = memberships.versionOf(event.data.object.metadata["member"] ?? "");
      return { version, subscription: await latest(event.data.object) };
    },
    apply(event, { tx, hf, loaded: { version, subscription } }) {
      const membership = membershipOf(subscription ?? { ...event.data.object, status: "canceled" }, config.prices);
      if (membership === null || isOutdated(membership, memberships.of(membership.memberId))) return;
      // What was loaded may be older than what that event has saved. The job is retried, and loads it again.
      if (memberships.versionOf(membership.memberId) !== version)
        throw new Error("another event was processed meanwhile");
      memberships.save(membership);
      void roles.sync(hf, membership.memberId, { entitlementIds: [membership.plan], tx });
    },
  });

  return stripe<Stripe.Event, Db>({
    db,
    webhookSecrets: config.webhookSecret,
    api: sdk,
    on: {
      "customer.subscription.created": followSubscription,
      "customer.subscription.updated": followSubscription,
      "customer.subscription.deleted": followSubscription,
      "invoice.paid"(event, { tx, hf }) {
        const { id, amount_paid: cents, currency, parent } = event.data.object;
        const member = parent?.subscription_details?.metadata?.["member"];
        if (member === undefined) return;
        memberships.addPayment({ invoiceId: id, memberId: member, cents, currency });
        void hf.enqueue(post.send, { template: "receipt", data: { member, cents, currency } }, { tx });
      },
    },
  });
}

interface Loaded {
  /** That of the membership, read before the subscription. */
  readonly version: number;
  /** Null: it was deleted. */
  readonly subscription: Stripe.Subscription | null;
}

type SubscriptionEvent =
  | Stripe.CustomerSubscriptionCreatedEvent
  | Stripe.CustomerSubscriptionUpdatedEvent
  | Stripe.CustomerSubscriptionDeletedEvent;

/** Null: the subscription is not one of this site. */
function membershipOf(
  { id, metadata, status, items }: Stripe.Subscription,
  prices: Readonly<Record<Plan, string>>,
): Membership | null {
  const price = items.data[0]?.price.id;
  const plan = (Object.keys(PLANS) as Plan[]).find((each) => prices[each] === price);
  const memberId = metadata["member"];
  if (plan === undefined || memberId === undefined) return null;
  return { memberId, subscriptionId: id, plan, status };
}

/** The end of an old subscription must not end the one that replaced it. */
function isOutdated(change: Membership, current: Membership | null): boolean {
  return current !== null && current.subscriptionId !== change.subscriptionId && isActive(current) && !isActive(change);
}
