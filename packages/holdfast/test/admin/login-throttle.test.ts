import { Hono } from "hono";
import { describe, expect, it, onTestFinished } from "vitest";
import { LoginThrottle, networkOf } from "#src/admin/auth/login-throttle.js";
import { cached } from "#src/admin/calls/cached.js";
import { serve } from "#src/admin/http/serve.js";
import { engineOf, type Holdfast } from "#src/engine/client/holdfast.js";
import { until } from "#src/testing/exercise-store/until.js";
import { hurry } from "../hurry.js";
import { adminScene, adminStores, type AdminScene } from "./scene.js";

const STORES = adminStores();

const WRONG = `hf_${"0".repeat(16)}_${"0".repeat(43)}`;

const json = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
  method: "POST",
  body: JSON.stringify(body),
  headers: { "content-type": "application/json", ...headers },
});

/** The status of a login with this token. */
async function login({ send }: Pick<AdminScene, "send">, token: string, headers = {}): Promise<number> {
  const response = await send("/api/admin/session", json({ token }, headers));
  await response.text();
  return response.status;
}

/** Counts reads of one token and of all tokens. */
function countReads(hf: Holdfast): { one: number; all: number } {
  const { store } = engineOf(hf);
  const calls = { one: 0, all: 0 };
  const [token, tokens] = [store.getToken.bind(store), store.listTokens.bind(store)];
  Object.assign(store, {
    getToken: (id: string) => (calls.one++, token(id)),
    listTokens: () => (calls.all++, tokens()),
  });
  return calls;
}

describe.each(STORES)("the login throttle on %s", (_name, store) => {
  it("limits invalid tokens, but not valid ones", async () => {
    const scene = await adminScene(store(), { loginAttempts: 3 });
    const good = await scene.token("viewer");
    for (let nth = 0; nth < 3; nth++) expect(await login(scene, WRONG)).toBe(401);
    const refused = await scene.send("/api/admin/session", json({ token: WRONG }));
    expect(refused.status).toBe(429);
    expect(await refused.json()).toMatchObject({ error: { code: "TOO_MANY_ATTEMPTS" } });
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await login(scene, good)).toBe(200);
    // That did not reset the count.
    expect(await login(scene, WRONG)).toBe(429);
    // A valid id with a wrong secret is rejected too.
    expect(await login(scene, `${good.slice(0, 20)}${"0".repeat(43)}`)).toBe(429);
  });

  it("reads the store once per second over the limit", async () => {
    const scene = await adminScene(store(), { loginAttempts: 3 });
    const good = await scene.token("viewer");
    for (let nth = 0; nth < 3; nth++) await login(scene, WRONG);
    const calls = countReads(scene.hf);
    const begun = performance.now();
    const statuses = await Promise.all(Array.from({ length: 60 }, () => login(scene, WRONG)));
    expect(new Set(statuses)).toEqual(new Set([429]));
    expect(calls.one).toBe(0);
    expect(calls.all).toBeLessThanOrEqual(1 + (performance.now() - begun) / 1_000);
    expect(await login(scene, good)).toBe(200);
    expect(calls.one).toBe(1);
  });

  it("counts invalid tokens of calls and logins together", async () => {
    const scene = await adminScene(store(), { loginAttempts: 3 });
    const good = await scene.token("viewer");
    const call = async (token: string): Promise<number> => {
      const response = await scene.send("/api/admin/queues", { token });
      await response.text();
      return response.status;
    };
    const calls = countReads(scene.hf);
    const begun = performance.now();
    const statuses = await Promise.all(Array.from({ length: 60 }, () => call(WRONG)));
    expect(new Set(statuses)).toEqual(new Set([401]));
    expect(calls.one).toBe(3);
    expect(calls.all).toBeLessThanOrEqual(1 + (performance.now() - begun) / 1_000);
    // A valid id with a wrong secret is rejected too. Calls and logins share one count.
    expect(await call(`${good.slice(0, 20)}${"0".repeat(43)}`)).toBe(401);
    expect(await login(scene, WRONG)).toBe(429);
    expect(calls.one).toBe(3);
    expect([await call(good), await login(scene, good)]).toEqual([200, 200]);
  });

  it("adds no reads to concurrent valid calls", async () => {
    const scene = await adminScene(store(), { loginAttempts: 1 });
    const { id, token } = await scene.hf.tokens.create({ name: "a", role: "viewer" });
    const call = async (): Promise<number> => (await scene.send("/api/admin/queues", { token })).status;
    expect(await call()).toBe(200);
    await login(scene, WRONG);
    const calls = countReads(scene.hf);
    expect(new Set(await Promise.all(Array.from({ length: 20 }, call)))).toEqual(new Set([200]));
    expect(calls).toEqual({ one: 20, all: 0 });
    await scene.hf.tokens.revoke(id);
    expect(await call()).toBe(401);
    // From then on it is like any other invalid token.
    expect(await call()).toBe(401);
    expect(calls.all).toBe(1);
  });

  it("reads the store once per second for /readyz", async () => {
    const { hf, send } = await adminScene(store());
    const { store: asked } = engineOf(hf);
    const dueSchedules = asked.dueSchedules.bind(asked);
    let [reads, isOut] = [0, false];
    Object.assign(asked, {
      dueSchedules: (now: number) => (reads++, isOut ? Promise.reject(new Error("out")) : dueSchedules(now)),
    });
    const begun = performance.now();
    const many = async (): Promise<Set<number>> =>
      new Set(await Promise.all(Array.from({ length: 40 }, async () => (await send("/readyz")).status)));
    expect(await many()).toEqual(new Set([200]));
    isOut = true;
    await hurry(() => until("the outage to show", async () => (await send("/readyz")).status === 503));
    expect(await many()).toContain(503);
    isOut = false;
    await hurry(() => until("it to be ready again", async () => (await send("/readyz")).status === 200));
    expect(reads).toBeGreaterThan(2);
    expect(reads).toBeLessThanOrEqual(1 + (performance.now() - begun) / 1_000);
  });

  it("does not lock out clients with unknown addresses", async () => {
    const scene = await adminScene(store(), { loginAttempts: 1 });
    const good = await scene.token("viewer");
    const ask = async (token: string): Promise<number> =>
      (await scene.api.fetch(new Request("http://localhost/api/admin/session", json({ token })))).status;
    expect([await ask(WRONG), await ask(WRONG), await ask(good)]).toEqual([401, 429, 200]);
  });

  it("rejects a token that was just revoked", async () => {
    const scene = await adminScene(store(), { loginAttempts: 1 });
    const { id, token } = await scene.hf.tokens.create({ name: "a", role: "viewer" });
    await login(scene, WRONG);
    expect(await login(scene, token)).toBe(200);
    await scene.hf.tokens.revoke(id);
    expect([401, 429]).toContain(await login(scene, token));
  });
});

describe("the count of invalid tokens", () => {
  it("includes concurrent logins", async () => {
    const scene = await adminScene("sqlite::memory:", { loginAttempts: 3 });
    const statuses = await Promise.all(Array.from({ length: 10 }, () => login(scene, WRONG)));
    expect(statuses.filter((status) => status === 401)).toHaveLength(3);
    expect(statuses.filter((status) => status === 429)).toHaveLength(7);
    expect(await login(scene, "x".repeat(5_000))).toBe(413);
  });

  it("uses the clientAddress function", async () => {
    const scene = await adminScene("sqlite::memory:", {
      loginAttempts: 1,
      clientAddress: (request) => request.headers.get("x-real-ip"),
    });
    const from = (address: string): Promise<number> => login(scene, WRONG, { "x-real-ip": address });
    expect(await from("192.0.2.1")).toBe(401);
    expect(await from("192.0.2.1")).toBe(429);
    expect(await from("192.0.2.2")).toBe(401);
    // All unknown addresses share one count.
    expect([await login(scene, WRONG), await login(scene, WRONG)]).toEqual([401, 429]);
  });

  it("uses the remote address through a Hono mount", async () => {
    const seen: (string | undefined)[] = [];
    const { api } = await adminScene("sqlite::memory:", {
      clientAddress(_request, env) {
        const { incoming } = env as { incoming?: { socket: { remoteAddress?: string } } };
        seen.push(incoming?.socket.remoteAddress);
        return null;
      },
    });
    const app = new Hono();
    app.mount("/ops", api.fetch);
    const serving = await serve(
      { fetch: async (request, env) => app.fetch(request, env) },
      { host: "127.0.0.1", port: 0 },
    );
    onTestFinished(() => serving.stop());
    expect((await fetch(`${serving.url}/ops/api/admin/session`, json({ token: WRONG }))).status).toBe(401);
    expect(seen).toEqual(["127.0.0.1"]);
  });

  it("lasts a minute and can be undone", () => {
    const throttle = new LoginThrottle(2);
    throttle.recordFailure("192.0.2.1", 0);
    throttle.recordFailure("192.0.2.1", 10);
    expect(throttle.waitMs("192.0.2.1", 20)).toBe(59_980);
    expect(throttle.waitMs("192.0.2.2", 20)).toBe(0);
    expect(throttle.waitMs("192.0.2.1", 60_000)).toBe(0);
    throttle.recordFailure("192.0.2.2", 0)();
    throttle.recordFailure("192.0.2.2", 0);
    expect(throttle.waitMs("192.0.2.2", 0)).toBe(0);
  });

  it("is bounded for very many addresses", () => {
    const throttle = new LoginThrottle(2);
    throttle.recordFailure("192.0.2.1", 0);
    throttle.recordFailure("192.0.2.1", 0);
    for (let nth = 0; nth < 30_000; nth++)
      throttle.recordFailure(`10.${nth >> 16}.${(nth >> 8) & 255}.${nth & 255}`, 1);
    expect(throttle.waitMs("192.0.2.1", 2)).toBe(59_998);
    // Addresses beyond the limit share one count.
    expect(throttle.waitMs("10.0.117.1", 2)).toBeGreaterThan(0);
    expect(throttle.waitMs("198.51.100.7", 2)).toBeGreaterThan(0);
    expect(throttle.waitMs("198.51.100.7", 60_002)).toBe(0);
    throttle.recordFailure("198.51.100.7", 60_002);
    expect(throttle.waitMs("198.51.100.7", 60_002)).toBe(0);
  });

  it.each([
    ["192.0.2.1", "192.0.2.1"],
    ["::ffff:192.0.2.1", "192.0.2.1"],
    ["2001:db8:0:1::1", "2001:db8:0:1"],
    ["2001:DB8:0:1:ffff:eeee:dddd:cccc", "2001:db8:0:1"],
    ["2001:0db8::7", "2001:db8:0:0"],
    ["::1", "0:0:0:0"],
    ["fe80::1%eth0", "fe80:0:0:0"],
    ["somewhere", "somewhere"],
    ["x".repeat(500), "x".repeat(100)],
  ])("treats %s as %s", (address, network) => expect(networkOf(address)).toBe(network));

  it("caches reads, but not failed ones", async () => {
    let [now, read] = [0, 0];
    const recent = cached(
      async () => {
        if (++read === 2) throw new Error("out");
        return read;
      },
      100,
      () => now,
    );
    expect(await Promise.all([recent(), recent(), recent()])).toEqual([1, 1, 1]);
    now = 99;
    expect(await recent()).toBe(1);
    now = 100;
    await expect(recent()).rejects.toThrow("out");
    expect(await recent()).toBe(3);
  });
});
