import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { openSite } from "../../examples/membership/dist/site/site.js";
import { temporaryFolder } from "./run-example.js";

const SECRET = "whsec_of_this_test";

it("of two events at once, the state that was loaded first does not win", async () => {
  const folder = await temporaryFolder();
  /** Stripe's responses to the calls of jobs, in the order of the calls. */
  const calls: ServerResponse[] = [];
  const waiting: (() => void)[] = [];
  const server = createServer((_request, response) => {
    calls.push(response);
    for (const look of waiting.splice(0)) look();
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const site = await openSite(
    {
      file: join(folder.path, "site.db"),
      port: 0,
      logger: { info() {}, warn() {}, error() {} },
      smtpUrl: "smtp://127.0.0.1:1",
      stripe: {
        secretKey: "sk_test_1",
        webhookSecret: SECRET,
        prices: { reader: "price_reader", patron: "price_patron" },
        api: { host: "127.0.0.1", port, protocol: "http" },
        checkout: "http://127.0.0.1",
      },
      discord: { token: "t", guild: "1", roles: { reader: "2", patron: "3" }, api: "http://127.0.0.1:1" },
    },
    "http://club.example",
  );
  onTestFinished(async () => {
    await site.close();
    server.closeAllConnections();
    server.close();
    await folder.remove();
  });
  const ada = site.members.add({ email: "ada@example.com", name: "Ada", password: "-", newsletter: false });
  const member = ada?.id ?? "";
  const subscription = (status: string): object => ({
    id: "sub_1",
    object: "subscription",
    status,
    metadata: { member },
    items: { object: "list", data: [{ price: { id: "price_reader" } }] },
  });
  const route = site.payments.webhook(site.hf);
  async function send(id: string, type: string): Promise<string> {
    const payload = JSON.stringify({
      id,
      object: "event",
      type,
      created: 1,
      livemode: false,
      data: { object: subscription("active") },
    });
    const signature = site.stripe.webhooks.generateTestHeaderString({ payload, secret: SECRET });
    const headers = { "stripe-signature": signature };
    const response = await route(new Request("http://club.example/", { method: "POST", headers, body: payload }));
    expect(response.status).toBe(200);
    return (await site.hf.get({ key: `stripe:${id}` }))?.id ?? "";
  }
  async function call(number: number): Promise<ServerResponse> {
    while (calls.length < number) await new Promise<void>((resolve) => void waiting.push(resolve));
    return calls[number - 1]!;
  }
  const respond = (response: ServerResponse, status: string): unknown =>
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(subscription(status)));
  const ended = (id: string): Promise<void> =>
    new Promise((resolve) => {
      for (const event of ["completed", "failed"] as const)
        site.hf.on(event, (job) => void (job.id === id && resolve()));
    });

  const created = await send("evt_created", "customer.subscription.created");
  const held = await call(1);
  const deleted = await send("evt_deleted", "customer.subscription.deleted");
  const second = await call(2);
  const isDeleted = ended(deleted);
  respond(second, "canceled");
  await isDeleted;
  expect(site.memberships.of(member)?.status).toBe("canceled");

  // What Stripe sent before the subscription ended arrives last.
  const isAttempted = ended(created);
  respond(held, "active");
  await isAttempted;
  expect(site.memberships.of(member)?.status).toBe("canceled");
  const isDone = ended(created);
  await site.hf.retry(created);
  respond(await call(3), "canceled");
  await isDone;
  expect(site.memberships.entitlementsOf(member)).toEqual([]);
});
