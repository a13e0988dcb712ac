import { createServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { nodeListener } from "holdfast/admin";
import { beforeEach, expect, it, onTestFinished } from "vitest";
import type { PackDatabase } from "../../holdfast/test/pack/scene.js";
import { effects, invoicePaid, openScene, packOn, SECRET, signed, type Scene } from "./scene.js";

const RECEIVED = { status: 200, body: { received: true } };

/** Runs on SQLite with `npm test`, and on PostgreSQL with `npm run test:all`. */
export function webhookTests(open: () => Promise<PackDatabase>): void {
  let given: PackDatabase;
  beforeEach(async () => (given = await open()));

  /** Nothing was stored: no job, no event. */
  async function expectNothing({ hf }: Scene): Promise<void> {
    expect((await hf.list()).jobs).toEqual([]);
    expect(await given.query("SELECT id FROM stripe_events")).toEqual([]);
  }

  async function events(): Promise<unknown[]> {
    return (await given.query("SELECT id FROM stripe_events ORDER BY id")).map(({ id }) => id);
  }

  it("E-08 the route responds 200, and one job applies the event", async () => {
    const scene = await openScene(given);
    const event = invoicePaid();
    expect(await scene.send(signed(event))).toEqual(RECEIVED);
    const { jobs } = await scene.hf.list();
    expect(jobs).toMatchObject([{ type: "stripe.webhook.process", state: "pending" }]);
    expect(jobs[0]?.input).toEqual({ eventId: event.id, eventType: "invoice.paid", payload: event });
    expect(await effects(given)).toEqual([]);
    expect(await scene.hf.runNext()).toBe(true);
    expect(await effects(given)).toEqual([event.id]);
    expect(await scene.hf.get(jobs[0]!.id)).toMatchObject({ state: "completed", output: { processed: true } });
  });

  it("E-08 refuses bad signatures, and stores nothing", async () => {
    const scene = await openScene(given);
    const old = Math.floor(Date.now() / 1_000) - 301;
    const event = invoicePaid();
    const changed = JSON.stringify({ ...event, livemode: true });
    const unsigned = new Request("http://localhost", { method: "POST", body: JSON.stringify(event) });
    const bad = [
      { request: unsigned, message: /is missing/ },
      { request: signed(event, { secret: "whsec_another" }), message: /no signature matches/ },
      { request: signed(event, { body: changed }), message: /no signature matches/ },
      { request: signed(event, { timestamp: old }), message: /older than 300 s/ },
    ];
    for (const { request, message } of bad) {
      const error = { code: "INVALID_SIGNATURE", message: expect.stringMatching(message) as string };
      expect(await scene.send(request)).toEqual({ status: 400, body: { error } });
    }
    await expectNothing(scene);
    expect(await scene.send(signed(event))).toEqual(RECEIVED);
  });

  it("E-08 accepts the old and the new secret during rotation", async () => {
    const scene = await openScene(given, { webhookSecrets: ["whsec_new_secret", SECRET] });
    expect(await scene.send(signed(invoicePaid()))).toEqual(RECEIVED);
    expect(await scene.send(signed(invoicePaid(), { secret: "whsec_new_secret" }))).toEqual(RECEIVED);
    expect((await scene.send(signed(invoicePaid(), { secret: "whsec_third_one" }))).status).toBe(400);
    expect((await scene.hf.list()).jobs).toHaveLength(2);
  });

  it("E-08 refuses a body of 2 MB over HTTP, and reads others", async () => {
    const scene = await openScene(given);
    const server = createServer(nodeListener({ fetch: scene.pack.webhook(scene.hf) }));
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => new Promise<void>((resolve) => void server.close(() => resolve())));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks/stripe`;
    const post = async (request: Request, chunked = false): Promise<number> => {
      const { headers } = request;
      const body = Buffer.from(await request.arrayBuffer());
      return new Promise((resolve, reject) => {
        const length = chunked ? {} : { "content-length": body.length };
        const sent = httpRequest(url, {
          method: "POST",
          agent: false,
          headers: { ...Object.fromEntries(headers), ...length },
        });
        sent.once("response", (response) => {
          response.resume();
          resolve(response.statusCode ?? 0);
        });
        sent.once("error", reject);
        sent.end(body);
      });
    };
    const large = signed(invoicePaid({ customer: "x".repeat(2 * 1_048_576) }));
    expect(await post(large.clone())).toBe(413);
    expect(await post(large, true)).toBe(413);
    expect((await fetch(url)).status).toBe(405);
    await expectNothing(scene);
    expect(await post(signed(invoicePaid()), true)).toBe(200);
    expect(await post(signed(invoicePaid()))).toBe(200);
  });

  it("E-08 responds 500 if the event cannot be stored", async () => {
    const errors: unknown[] = [];
    const scene = await openScene(given, { onError: (error: unknown) => errors.push(error) });
    const event = invoicePaid();
    await given.query("ALTER TABLE stripe_events RENAME TO elsewhere");
    const error = { code: "NOT_STORED", message: "the event could not be stored; send it again" };
    expect(await scene.send(signed(event))).toEqual({ status: 500, body: { error } });
    expect((await scene.hf.list()).jobs).toEqual([]);
    expect(errors).toHaveLength(1);
    await given.query("ALTER TABLE elsewhere RENAME TO stripe_events");
    expect(await scene.send(signed(event))).toEqual(RECEIVED);
    expect((await scene.hf.list()).jobs).toHaveLength(1);
  });

  it("stores no event whose job cannot be stored", async () => {
    const scene = await openScene(given, { onError: () => {} });
    await scene.hf.close();
    expect((await scene.send(signed(invoicePaid()))).status).toBe(500);
    expect(await events()).toEqual([]);
  });

  it("refuses signed bodies that are no events", async () => {
    const scene = await openScene(given);
    const { data: _data, ...withoutData } = invoicePaid();
    const bodies: (object | string)[] = [
      "not JSON",
      "[]",
      "null",
      { object: "v2.core.event", id: "evt_1" },
      { object: "invoice", id: "in_1" },
      withoutData,
      invoicePaid({ id: "evt_1'; DROP TABLE paid" }),
      { ...invoicePaid(), created: "now" },
      { ...invoicePaid(), livemode: undefined },
      { ...invoicePaid(), account: {} },
    ];
    for (const body of bodies) {
      expect(await scene.send(signed(body))).toMatchObject({ status: 400, body: { error: { code: "INVALID_EVENT" } } });
    }
    await expectNothing(scene);
  });

  it("ignores events of other accounts and modes, as the options say", async () => {
    const live = await openScene(given, { livemode: true, account: "acct_1" });
    for (const event of [invoicePaid(), invoicePaid({ livemode: true }), invoicePaid({ account: "acct_1" })]) {
      expect(await live.send(signed(event))).toEqual({ status: 200, body: { received: true, ignored: true } });
    }
    await expectNothing(live);
    expect(await live.send(signed(invoicePaid({ livemode: true, account: "acct_1" })))).toEqual(RECEIVED);
    const own = packOn(given, { account: null }).webhook(live.hf);
    expect(await (await own(signed(invoicePaid({ account: "acct_1" })))).json()).toMatchObject({ ignored: true });
    expect(await (await own(signed(invoicePaid()))).json()).toEqual({ received: true });
  });

  it("two packs with prefixes do not share events", async () => {
    const [one, other] = [await openScene(given), await openScene(given, { prefix: "shop." })];
    const event = invoicePaid();
    for (const scene of [one, other]) {
      expect(await scene.send(signed(event))).toEqual(RECEIVED);
      await scene.hf.drain({ types: [scene.pack.process] });
    }
    expect(await effects(given)).toEqual([event.id, event.id]);
    expect(await given.query("SELECT id FROM shop_stripe_events")).toEqual([{ id: event.id }]);
  });

  it("an event whose row was deleted is not processed again", async () => {
    const scene = await openScene(given);
    const event = invoicePaid();
    await scene.send(signed(event));
    await scene.hf.drain();
    await given.query("DELETE FROM stripe_events");
    await scene.hf.purge({ state: "completed", olderThan: 0 });
    expect(await scene.send(signed(event))).toEqual(RECEIVED);
    expect(await scene.hf.drain()).toBe(0);
    expect(await events()).toEqual([]);
  });
}
