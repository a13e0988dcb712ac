import Sqlite from "better-sqlite3";
import pg from "pg";
import type Stripe from "stripe";
import { expectTypeOf, it, onTestFinished } from "vitest";
import { effect, stripe, type StripeEvent } from "../dist/index.js";
import { SECRET, sdk } from "./scene.js";

const webhookSecrets = SECRET;

it("events have the types of the stripe package", () => {
  const db = new Sqlite(":memory:");
  onTestFinished(() => void db.close());
  stripe<Stripe.Event, typeof db>({
    db,
    webhookSecrets,
    api: sdk,
    on: {
      "invoice.paid"(event, { tx }) {
        expectTypeOf(event).toEqualTypeOf<Stripe.InvoicePaidEvent>();
        expectTypeOf(event.data.object).toEqualTypeOf<Stripe.Invoice>();
        expectTypeOf(tx).toEqualTypeOf<Sqlite.Database>();
      },
      "customer.subscription.updated": effect({
        load: (event, { latest }) => latest(event.data.object),
        apply(event, { loaded, tx }) {
          expectTypeOf(event.data.object).toEqualTypeOf<Stripe.Subscription>();
          expectTypeOf(loaded).toEqualTypeOf<Stripe.Subscription | null>();
          expectTypeOf(tx).toEqualTypeOf<Sqlite.Database>();
        },
      }),
    },
  });
  // @ts-expect-error -- no event has this type
  stripe<Stripe.Event, typeof db>({ db, webhookSecrets, on: { "invoice.payed": () => {} } });
});

it("the transaction has the type of the database", async () => {
  const pool = new pg.Pool();
  stripe({
    db: pool,
    webhookSecrets,
    on: {
      "invoice.paid": async (event, { tx }) => {
        expectTypeOf(tx).toEqualTypeOf<pg.PoolClient>();
        expectTypeOf(event.data.object["customer"]).toEqualTypeOf<unknown>();
        await tx.query("SELECT 1");
      },
    },
  });
  stripe<StripeEvent, typeof pool>({
    db: pool,
    webhookSecrets,
    on: {
      "customer.updated": effect({
        load: (event, { signal }) => [event.id, signal.aborted],
        apply(event, { loaded, tx }) {
          expectTypeOf(event.created).toEqualTypeOf<number>();
          expectTypeOf(loaded).toEqualTypeOf<(string | boolean)[]>();
          expectTypeOf(tx).toEqualTypeOf<pg.PoolClient>();
        },
      }),
    },
  });
  stripe<Stripe.Event>({
    webhookSecrets,
    on: { "charge.refunded": (_event, { tx }) => expectTypeOf(tx).toEqualTypeOf<undefined>() },
  });
  await pool.end();
});
