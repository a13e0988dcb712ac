import { Hono } from "hono";
import { describe, expect, it, onTestFinished } from "vitest";
import { Attempts, networkOf } from "#src/admin/auth/login-throttle.js";
import { remembered } from "#src/admin/calls/cached.js";
import { serve } from "#src/admin/http/serve.js";
import { engineOf, type Holdfast } from "#src/engine/client/holdfast.js";
import { until } from "#src/testing/exercise-store/until.js";
import { adminScene, STORES, type AdminScene } from "./scene.js";

const WRONG = `hf_${"0".repeat(16)}_${"0".repeat(43)}`;

const json = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
  method: "POST",
  body: JSON.stringify(body),
  headers: { "content-type": "application/json", ...headers },
});

/** How a login with this token is answered. */
async function login({ send }: Pick<AdminScene, "send">, token: string, headers = {}): Promise<number> {
  const response = await send("/api/admin/session", json({ token }, headers));
  await response.text();
  return response.status;
}

/** How often the store is asked for tokens, one or all. */
function counted(hf: Holdfast): { one: number; all: number } {
  const { store } = engineOf(hf);
  const calls = { one: 0, all: 0 };
  const [token, tokens] = [store.getToken.bind(store), store.listTokens.bind(store)];
  Object.assign(store, {
    getToken: (id: string) => (calls.one++, token(id)),
    listTokens: () => (calls.all++, tokens()),
  });
  return calls;
}

describe.each(STORES)("logins on %s", (_name, store) => {
  it("whoever guesses is refused after so many tries, and whoever has a token still gets in from there", async () => {
    const scene = await adminScene(store(), { loginAttempts: 3 });
    const good = await scene.token("viewer");
    for (let nth = 0; nth < 3; nth++) expect(await login(scene, WRONG)).toBe(401);
    const refused = await scene.send("/api/admin/session", json({ token: WRONG }));
    expect(refused.status).toBe(429);
    expect(await refused.json()).toMatchObject({ error: { code: "TOO_MANY_ATTEMPTS" } });
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await login(scene, good)).toBe(200);
    // That did not make room for more guesses.
    expect(await login(scene, WRONG)).toBe(429);
    // The right id does not make a guess any better.
    expect(await login(scene, `${good.slice(0, 20)}${"0".repeat(43)}`)).toBe(429);
  });

  it("guesses past that cost the store one reading a second, however many they are", async () => {
    const scene = await adminScene(store(), { loginAttempts: 3 });
    const good = await scene.token("viewer");
    for (let nth = 0; nth < 3; nth++) await login(scene, WRONG);
    const calls = counted(scene.hf);
    const begun = performance.now();
    const answers = await Promise.all(Array.from({ length: 60 }, () => login(scene, WRONG)));
    expect(new Set(answers)).toEqual(new Set([429]));
    expect(calls.one).toBe(0);
    expect(calls.all).toBeLessThanOrEqual(1 + (performance.now() - begun) / 1_000);
    expect(await login(scene, good)).toBe(200);
    expect(calls.one).toBe(1);
  });

  it("calls with tokens that are not valid count as guesses, and past that cost the store as little", async () => {
    const scene = await adminScene(store(), { loginAttempts: 3 });
    const good = await scene.token("viewer");
    const call = async (token: string): Promise<number> => {
      const answer = await scene.send("/api/admin/queues", { token });
      await answer.text();
      return answer.status;
    };
    const calls = counted(scene.hf);
    const begun = performance.now();
    const answers = await Promise.all(Array.from({ length: 60 }, () => call(WRONG)));
    expect(new Set(answers)).toEqual(new Set([401]));
    expect(calls.one).toBe(3);
    expect(calls.all).toBeLessThanOrEqual(1 + (performance.now() - begun) / 1_000);
    // The right id does not make a guess any better, and a guess is a guess wherever it is made.
    expect(await call(`${good.slice(0, 20)}${"0".repeat(43)}`)).toBe(401);
    expect(await login(scene, WRONG)).toBe(429);
    expect(calls.one).toBe(3);
    expect([await call(good), await login(scene, good)]).toEqual([200, 200]);
  });

  it("calls with a token that is right cost one look at that token each, however many come at once", async () => {
    const scene = await adminScene(store(), { loginAttempts: 1 });
    const { id, token } = await scene.hf.tokens.create({ name: "a", role: "viewer" });
    const call = async (): Promise<number> => (await scene.send("/api/admin/queues", { token })).status;
    expect(await call()).toBe(200);
    await login(scene, WRONG);
    const calls = counted(scene.hf);
    expect(new Set(await Promise.all(Array.from({ length: 20 }, call)))).toEqual(new Set([200]));
    expect(calls).toEqual({ one: 20, all: 0 });
    await scene.hf.tokens.revoke(id);
    expect(await call()).toBe(401);
    // From then on it is like any other that is not valid.
    expect(await call()).toBe(401);
    expect(calls.all).toBe(1);
  });

  it("whoever asks whether it is ready costs the store one question a second, also while it does not answer", async () => {
    const { hf, send } = await adminScene(store());
    const { store: asked } = engineOf(hf);
    const dueSchedules = asked.dueSchedules.bind(asked);
    let [questions, isOut] = [0, false];
    Object.assign(asked, {
      dueSchedules: (now: number) => (questions++, isOut ? Promise.reject(new Error("out")) : dueSchedules(now)),
    });
    const begun = performance.now();
    const many = async (): Promise<Set<number>> =>
      new Set(await Promise.all(Array.from({ length: 40 }, async () => (await send("/readyz")).status)));
    expect(await many()).toEqual(new Set([200]));
    isOut = true;
    await until("it to be told", async () => (await send("/readyz")).status === 503);
    expect(await many()).toContain(503);
    isOut = false;
    await until("it to be ready again", async () => (await send("/readyz")).status === 200);
    expect(questions).toBeGreaterThan(2);
    expect(questions).toBeLessThanOrEqual(1 + (performance.now() - begun) / 1_000);
  });

  it("where nobody knows who calls, nobody can keep the others out", async () => {
    const scene = await adminScene(store(), { loginAttempts: 1 });
    const good = await scene.token("viewer");
    const ask = async (token: string): Promise<number> =>
      (await scene.api.fetch(new Request("http://localhost/api/admin/session", json({ token })))).status;
    expect([await ask(WRONG), await ask(WRONG), await ask(good)]).toEqual([401, 429, 200]);
  });

  it("a token that was revoked a moment ago does not get in past the limit either", async () => {
    const scene = await adminScene(store(), { loginAttempts: 1 });
    const { id, token } = await scene.hf.tokens.create({ name: "a", role: "viewer" });
    await login(scene, WRONG);
    expect(await login(scene, token)).toBe(200);
    await scene.hf.tokens.revoke(id);
    expect([401, 429]).toContain(await login(scene, token));
  });
});

describe("whose guesses they are", () => {
  it("guesses at the same time are counted too, and long ones cost little", async () => {
    const scene = await adminScene("sqlite::memory:", { loginAttempts: 3 });
    const answers = await Promise.all(Array.from({ length: 10 }, () => login(scene, WRONG)));
    expect(answers.filter((status) => status === 401)).toHaveLength(3);
    expect(answers.filter((status) => status === 429)).toHaveLength(7);
    expect(await login(scene, "x".repeat(5_000))).toBe(413);
  });

  it("an application says where requests come from, as behind a proxy only it knows", async () => {
    const scene = await adminScene("sqlite::memory:", {
      loginAttempts: 1,
      clientAddress: (request) => request.headers.get("x-real-ip"),
    });
    const from = (address: string): Promise<number> => login(scene, WRONG, { "x-real-ip": address });
    expect(await from("192.0.2.1")).toBe(401);
    expect(await from("192.0.2.1")).toBe(429);
    expect(await from("192.0.2.2")).toBe(401);
    // All that come from nowhere are one.
    expect([await login(scene, WRONG), await login(scene, WRONG)]).toEqual([401, 429]);
  });

  it("an application of Hono's that mounts the API passes on what its server knows", async () => {
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

  it("are counted for a minute, and not when they turn out right", () => {
    const attempts = new Attempts(2);
    attempts.failed("192.0.2.1", 0);
    attempts.failed("192.0.2.1", 10);
    expect(attempts.waitMs("192.0.2.1", 20)).toBe(59_980);
    expect(attempts.waitMs("192.0.2.2", 20)).toBe(0);
    expect(attempts.waitMs("192.0.2.1", 60_000)).toBe(0);
    attempts.failed("192.0.2.2", 0)();
    attempts.failed("192.0.2.2", 0);
    expect(attempts.waitMs("192.0.2.2", 0)).toBe(0);
  });

  it("from very many addresses fill no memory, and make nobody's be forgotten", () => {
    const attempts = new Attempts(2);
    attempts.failed("192.0.2.1", 0);
    attempts.failed("192.0.2.1", 0);
    for (let nth = 0; nth < 30_000; nth++) attempts.failed(`10.${nth >> 16}.${(nth >> 8) & 255}.${nth & 255}`, 1);
    expect(attempts.waitMs("192.0.2.1", 2)).toBe(59_998);
    // Those for whom there was no room are counted together.
    expect(attempts.waitMs("10.0.117.1", 2)).toBeGreaterThan(0);
    expect(attempts.waitMs("198.51.100.7", 2)).toBeGreaterThan(0);
    expect(attempts.waitMs("198.51.100.7", 60_002)).toBe(0);
    attempts.failed("198.51.100.7", 60_002);
    expect(attempts.waitMs("198.51.100.7", 60_002)).toBe(0);
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
  ])("%s counts as %s", (address, network) => expect(networkOf(address)).toBe(network));

  it("what is remembered is read once for a while, also by many at once; a failure is not remembered", async () => {
    let [now, read] = [0, 0];
    const recent = remembered(
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
