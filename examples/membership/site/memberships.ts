import type { Plan } from "./config.js";
import type { Db } from "./database.js";

export interface Membership {
  readonly memberId: string;
  /** The id of the subscription at Stripe. */
  readonly subscriptionId: string;
  readonly plan: Plan;
  /** Stripe's word: `active`, `past_due`, `canceled`. */
  readonly status: string;
}

export interface Payment {
  readonly invoiceId: string;
  readonly memberId: string;
  readonly cents: number;
  readonly currency: string;
}

/** Who has which membership, and what was paid. Written only by the effects of Stripe's events. */
export class Memberships {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  of(memberId: string): Membership | null {
    const row = this.#db
      .prepare<[string], Membership>(
        `SELECT member_id AS memberId, subscription_id AS subscriptionId, plan, status
          FROM memberships WHERE member_id = ?`,
      )
      .get(memberId);
    return row ?? null;
  }

  /** How often the membership was saved. */
  versionOf(memberId: string): number {
    const version = this.#db.prepare<[string], number>("SELECT version FROM memberships WHERE member_id = ?");
    return version.pluck().get(memberId) ?? 0;
  }

  /** What a member is entitled to now. */
  entitlementsOf(memberId: string): Plan[] {
    const membership = this.of(memberId);
    return membership !== null && isActive(membership) ? [membership.plan] : [];
  }

  save({ memberId, subscriptionId, plan, status }: Membership): void {
    this.#db
      .prepare(
        `INSERT INTO memberships (member_id, subscription_id, plan, status) VALUES (?, ?, ?, ?)
          ON CONFLICT (member_id) DO UPDATE
          SET subscription_id = excluded.subscription_id, plan = excluded.plan, status = excluded.status,
            version = version + 1`,
      )
      .run(memberId, subscriptionId, plan, status);
  }

  addPayment({ invoiceId, memberId, cents, currency }: Payment): void {
    this.#db
      .prepare("INSERT INTO payments (invoice_id, member_id, cents, currency, paid_at) VALUES (?, ?, ?, ?, ?)")
      .run(invoiceId, memberId, cents, currency, Date.now());
  }

  countPayments(memberId: string): number {
    const count = this.#db.prepare<[string], number>("SELECT count(*) FROM payments WHERE member_id = ?");
    return count.pluck().get(memberId) ?? 0;
  }
}

/** Stripe tries again for some days to collect a payment that failed: members stay members meanwhile. */
export function isActive({ status }: Membership): boolean {
  return ["active", "trialing", "past_due"].includes(status);
}
