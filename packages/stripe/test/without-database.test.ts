import { holdfast } from "holdfast";
import { admin, adminClient } from "holdfast/admin";
import { beforeEach, describe, expect, expectTypeOf, it, onTestFinished } from "vitest";
import { describeDatabases, type PackDatabase } from "../../holdfast/test/pack/scene.js";
import { redact, stripe, type StripeClient, type StripeEvent } from "../dist/index.js";
import { invoicePaid, openClient, SECRET, signed } from "./scene.js";

describeDatabases((open) => {
  let given: PackDatabase;
  beforeEach(async () => (given = await open()));

  it("E-08 without a database, the key of the job refuses a repeated event", async () => {
    const keys: string[] = [];
    const pack = stripe({
      webhookSecrets: SECRET,
      on: {
        async "invoice.paid"(_event, { tx, idempotencyKey }) {
          expectTypeOf(tx).toEqualTypeOf<undefined>();
          keys.push(idempotencyKey);
          if (keys.length < 3) return Promise.reject(new Error("not yet"));
          return Promise.resolve();
        },
      },
    });
    const hf = await openClient(given, pack);
    await pack.install(hf);
    const event = invoicePaid();
    const sent = await Promise.all(Array.from({ length: 20 }, () => pack.webhook(hf)(signed(event))));
    expect(new Set(sent.map(({ status }) => status))).toEqual(new Set([200]));
    await hf.drain();
    const { jobs } = await hf.list();
    expect(jobs).toMatchObject([{ state: "completed", output: { processed: true } }]);
    // The same in all attempts: the other service does it once.
    expect(keys).toEqual([jobs[0]?.id, jobs[0]?.id, jobs[0]?.id]);
    expect((await pack.webhook(hf)(signed(event))).status).toBe(200);
    expect(await hf.drain()).toBe(0);
  });

  it("a large event is fetched from Stripe, or not accepted", async () => {
    const event = invoicePaid({ customer: "x".repeat(500_000) });
    const customers: unknown[] = [];
    const on = { "invoice.paid": ({ data }: StripeEvent) => void customers.push(data.object["customer"]) };
    const api: StripeClient = { rawRequest: () => Promise.resolve(event) };
    const errors: unknown[] = [];
    const without = stripe({ webhookSecrets: SECRET, on, onError: (error) => errors.push(error) });
    const withApi = stripe({ webhookSecrets: SECRET, on, api });
    const hf = await openClient(given, withApi);
    expect((await without.webhook(hf)(signed(event))).status).toBe(500);
    expect(errors).toMatchObject([{ code: "PAYLOAD_TOO_LARGE" }]);
    expect((await withApi.webhook(hf)(signed(event))).status).toBe(200);
    await hf.drain();
    expect(customers).toEqual(["x".repeat(500_000)]);
  });
});

describe("the options", () => {
  const valid = { webhookSecrets: SECRET, on: {} };
  const bad: [options: object, message: string | RegExp][] = [
    [{ ...valid, webhookSecret: SECRET }, "webhookSecret is not an option of stripe"],
    [{ ...valid, webhookSecrets: [] }, "webhookSecrets must be"],
    [{ ...valid, webhookSecrets: "" }, "webhookSecrets must be a signing secret"],
    [{ ...valid, webhookSecrets: [SECRET, `${SECRET}\n`] }, "webhookSecrets.1 must be a signing secret"],
    [{ ...valid, on: { "invoice.paid": true } }, "on.invoice.paid must be a function"],
    [{ ...valid, on: null }, "on must be an object"],
    [{ ...valid, db: {} }, "neither a better-sqlite3 database nor a pool"],
    [{ ...valid, db: undefined }, "db is undefined"],
    [{ ...valid, api: 5 }, "api must be a secret key"],
    [{ ...valid, livemode: "true" }, "livemode must be true or false"],
    [{ ...valid, account: "shop" }, "account must be the id"],
    [{ ...valid, prefix: "a b" }, "prefix must have"],
    [{ ...valid, onError: true }, "onError must be a function"],
  ];
  it.each(bad)("are checked: %j", (options, message) => {
    expect(() => stripe(options as typeof valid)).toThrow(message);
  });

  it("a database needs a store that takes its transactions", async () => {
    const errors: unknown[] = [];
    const db = {
      query: () => Promise.resolve({ rows: [{ id: "evt" }] }),
      connect: () => Promise.resolve({ ...db, release() {} }),
    };
    const pack = stripe({ ...valid, db, onError: (error) => errors.push(error) });
    const hf = await holdfast({ store: "sqlite::memory:", jobs: pack.jobs, logger: false });
    expect((await pack.webhook(hf)(signed(invoicePaid()))).status).toBe(500);
    expect(errors).toMatchObject([{ code: "INVALID_OPTION", field: "tx" }]);
    await hf.close();
  });

  it("redact hides what events have of customers", async () => {
    const pack = stripe(valid);
    const hf = await holdfast({ store: "sqlite::memory:", jobs: pack.jobs, redact, logger: false });
    onTestFinished(() => hf.close());
    await pack.webhook(hf)(signed(invoicePaid({ id: "evt_hidden", customer: "cus_secret" })));
    const [job] = (await hf.list()).jobs;
    expect(JSON.stringify(job)).toMatch("cus_secret");
    const { token } = await hf.tokens.create({ name: "viewer", role: "viewer" });
    const api = admin(hf);
    onTestFinished(() => api.close());
    const shown = await adminClient({ fetch: (request) => api.fetch(request), token }).jobs.get({ id: job?.id ?? "" });
    expect(JSON.stringify(shown)).toMatch("evt_hidden");
    expect(JSON.stringify(shown)).not.toMatch("cus_secret");
    expect(redact).toEqual(["input.payload.data"]);
  });
});
