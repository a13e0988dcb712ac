import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { NotRetryable, RetryAfter } from "holdfast";
import Stripe from "stripe";
import { beforeEach, expect, it, onTestFinished } from "vitest";
import type { PackDatabase } from "../../holdfast/test/pack/scene.js";
import { callStripe, effect, type LoadContext, type StripeEvent } from "../dist/index.js";
import { invoicePaid, openScene, signed, type Scene } from "./scene.js";

interface StripeServer {
  api: Stripe;
  requests: IncomingMessage[];
  /** What it responds to each request, by path. */
  respond: (request: IncomingMessage, response: ServerResponse) => void;
}

/** A server that speaks Stripe's API, and a client of Stripe's library for it. */
export async function stripeServer(): Promise<StripeServer> {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    started.respond(request, response);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    return new Promise<void>((resolve) => void server.close(() => resolve()));
  });
  const { port } = server.address() as AddressInfo;
  const api = new Stripe("sk_test_123", { host: "127.0.0.1", port, protocol: "http", telemetry: false });
  const started: StripeServer = { api, requests, respond: (_request, response) => json(response, 200, {}) };
  return started;
}

export function json(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

/** Runs on SQLite with `npm test`, and on PostgreSQL with `npm run test:all`. */
export function latestTests(open: () => Promise<PackDatabase>): void {
  let given: PackDatabase;
  let server: StripeServer;
  let loaded: unknown[];
  beforeEach(async () => {
    given = await open();
    server = await stripeServer();
    loaded = [];
  });

  /** Processes an event whose effect loads the latest state of its object. Returns the job. */
  async function process(event: StripeEvent, options: Record<string, unknown> = { api: server.api }): Promise<unknown> {
    const on = {
      [event.type]: effect({
        load: ({ data }: StripeEvent, { latest }: LoadContext) => latest(data.object),
        apply: (_event: StripeEvent, context: { loaded: unknown }) => void loaded.push(context.loaded),
      }),
    };
    const scene: Scene = await openScene(given, { on, ...options });
    // A job of an earlier call may wait for its retry.
    await scene.hf.remove({ type: scene.pack.process.type });
    await scene.send(signed(event));
    await scene.hf.runNext();
    return (await scene.hf.list()).jobs[0];
  }

  it("latest returns the object as it is now, in the shape of the event", async () => {
    server.respond = (_request, response) => json(response, 200, { id: "in_1", object: "invoice", amount_paid: 5 });
    expect(await process(invoicePaid({ account: "acct_1" }))).toMatchObject({ state: "completed" });
    expect(loaded).toEqual([{ id: "in_1", object: "invoice", amount_paid: 5 }]);
    expect(server.requests.map(({ method, url }) => `${method} ${url}`)).toEqual(["GET /v1/invoices/in_1"]);
    expect(server.requests[0]?.headers).toMatchObject({ "stripe-version": "2026-01-01", "stripe-account": "acct_1" });
  });

  it("callStripe makes of an error what the job does about it", async () => {
    const call = (): Promise<unknown> =>
      callStripe(() => server.api.subscriptions.cancel("sub_1", {}, { maxNetworkRetries: 0 }), { action: "cancel" });
    const respond = (status: number, code: string, headers = {}): void => {
      const error = { type: "invalid_request_error", code, message: "No" };
      server.respond = (_request, response) => json(response, status, { error }, headers);
    };
    respond(400, "parameter_invalid");
    await expect(call()).rejects.toBeInstanceOf(NotRetryable);
    await expect(call()).rejects.toThrow("Stripe: No (parameter_invalid, cancel)");
    respond(429, "rate_limit", { "retry-after": "7" });
    await expect(call()).rejects.toMatchObject({ delay: 7_000 });
    await expect(call()).rejects.toBeInstanceOf(RetryAfter);
    respond(500, "api_error");
    await expect(call()).rejects.not.toBeInstanceOf(NotRetryable);
    respond(404, "resource_missing");
    expect(await call()).toBeNull();
    server.respond = (_request, response) => json(response, 200, { id: "sub_1", object: "subscription" });
    expect(await call()).toMatchObject({ id: "sub_1" });
  });

  it("callStripe ends with the signal", async () => {
    const stopping = new AbortController();
    const asked = new Promise<void>((resolve) => (server.respond = () => resolve()));
    const calling = callStripe(() => server.api.subscriptions.cancel("sub_1"), {
      action: "cancel",
      signal: stopping.signal,
    });
    await asked;
    stopping.abort(new Error("cancelled"));
    await expect(calling).rejects.toThrow("cancelled");
  });

  it("finds objects of other families by their name", async () => {
    const object = { object: "checkout.session", id: "cs_test_a/b" };
    await process(invoicePaid({ type: "checkout.session.completed", data: { object } }));
    expect(server.requests.map(({ url }) => url)).toEqual(["/v1/checkout/sessions/cs_test_a%2Fb"]);
  });

  it("latest returns null for a deleted object", async () => {
    const error = { type: "invalid_request_error", code: "resource_missing", message: "No such invoice" };
    server.respond = (_request, response) => json(response, 404, { error });
    expect(await process(invoicePaid())).toMatchObject({ state: "completed" });
    expect(loaded).toEqual([null]);
    server.respond = (_request, response) => json(response, 200, { id: "cus_1", object: "customer", deleted: true });
    await process(invoicePaid({ type: "customer.updated", data: { object: { object: "customer", id: "cus_1" } } }));
    expect(loaded).toEqual([null, null]);
  });

  it("E-08 errors of Stripe are retried when it may help", async () => {
    const error = { type: "api_error", message: "a problem" };
    const failures = [
      {
        status: 500,
        headers: {},
        state: "failed",
        message: /^Stripe: a problem \(StripeAPIError, GET \/v1\/invoices\)$/,
      },
      { status: 429, headers: { "retry-after": "7200" }, state: "failed", message: /a problem/ },
      { status: 401, headers: {}, state: "dead", message: /a problem/ },
      { status: 404, headers: {}, state: "dead", message: /a problem/ },
    ];
    for (const { status, headers, state, message } of failures) {
      server.respond = (_request, response) => json(response, status, { error }, headers);
      const job = (await process(invoicePaid())) as { state: string; error: { message: string }; runAt: Date };
      expect([status, job.state]).toEqual([status, state]);
      expect(job.error.message).toMatch(message);
      if (status === 429) expect(job.runAt.getTime() - Date.now()).toBeGreaterThan(7_000_000);
    }
    expect(server.requests).toHaveLength(failures.length);
    expect(loaded).toEqual([]);
  });

  it("a call ends with the signal of its job", async () => {
    const asked = new Promise<void>((resolve) => (server.respond = () => resolve()));
    const on = {
      "invoice.paid": effect({
        load: ({ data }: StripeEvent, { latest }: LoadContext) => latest(data.object),
        apply: () => {},
      }),
    };
    const scene = await openScene(given, { on, api: server.api });
    await scene.send(signed(invoicePaid()));
    const ran = scene.hf.runNext({ lease: "1s" });
    await asked;
    const [job] = (await scene.hf.list()).jobs;
    await scene.hf.cancel(job!.id);
    await ran;
    expect(await scene.hf.get(job!.id)).toMatchObject({ state: "cancelled" });
  });

  it("a secret key is enough, and without one the job says so", async () => {
    const job = (await process(invoicePaid(), {})) as { error: { message: string } };
    expect(job.error.message).toMatch("latest() needs the option api");
    const scene = await openScene(given, { api: "sk_test_123" });
    expect(scene.pack.jobs).toHaveLength(1);
  });

  it("objects without an id are refused", async () => {
    const job = await process(invoicePaid({ data: { object: { object: "invoice" } } }));
    expect(job).toMatchObject({ state: "dead", error: { message: expect.stringMatching("with an id") as string } });
    expect(server.requests).toEqual([]);
  });
}
