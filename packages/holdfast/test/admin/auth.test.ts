import { ROUTES, type Identity, type RouteName } from "holdfast/admin";
import { describe, expect, it } from "vitest";
import { Sessions } from "#src/admin/auth/sessions.js";
import type { TokenRole } from "#src/access/roles.js";
import { fakeClock } from "holdfast/testing";
import { adminScene, adminStores, mail } from "./scene.js";

const STORES = adminStores();

const NAMES = Object.keys(ROUTES) as RouteName[];
const ROLES: readonly TokenRole[] = ["user", "viewer", "operator", "admin"];
/** With a token, and with the session cookie that it was exchanged for. */
const WAYS = ["token", "cookie"] as const;
const COOKIE = "holdfast_session";
const FORGED = `${"0".repeat(16)}.1999999999999.${"A".repeat(43)}`;
/** Repeated here on purpose: a change of permissions in the route list must fail this test. */
const FOR_USERS = [
  "jobs.list",
  "jobs.search",
  "jobs.count",
  "jobs.searchCount",
  "jobs.get",
  "jobs.explain",
  "jobs.retry",
  "jobs.cancel",
  "session.get",
];
const READ_BY_POST = ["jobs.search", "jobs.searchCount", "jobs.preview", "schedules.preview"];
const FOR_ALL = ["session.start", "session.end"];
const FOR_ADMINS = [
  "jobs.remove",
  "jobs.removeMany",
  "jobs.purge",
  "audit.list",
  "tokens.list",
  "tokens.create",
  "tokens.revoke",
];

function expectedOf(caller: TokenRole | "anonymous", name: RouteName): "allowed" | 401 | 403 {
  if (FOR_ALL.includes(name)) return "allowed";
  if (caller === "anonymous") return 401;
  if (caller === "admin") return "allowed";
  if (caller === "user") return FOR_USERS.includes(name) ? "allowed" : 403;
  if (FOR_ADMINS.includes(name)) return 403;
  if (caller === "operator") return "allowed";
  return ROUTES[name].method === "GET" || READ_BY_POST.includes(name) ? "allowed" : 403;
}

describe.each(STORES)("authorization on %s", (_name, store) => {
  it("C-17 authorizes each role on its routes only", async () => {
    const { send, token } = await adminScene(store());
    const callers: { name: string; role: TokenRole | "anonymous"; headers: Record<string, string> }[] = [
      { name: "anonymous", role: "anonymous", headers: {} },
      { name: "anonymous with a forged cookie", role: "anonymous", headers: { cookie: `${COOKIE}=${FORGED}` } },
    ];
    for (const role of ROLES) {
      const sent = await token(role, role === "user" ? "ada" : undefined);
      const cookie = cookieOf(await send("/api/admin/session", json({ token: sent })));
      callers.push({ name: `${role} with token`, role, headers: { authorization: `Bearer ${sent}` } });
      callers.push({ name: `${role} with cookie`, role, headers: { cookie } });
    }
    expect(callers).toHaveLength(2 + ROLES.length * WAYS.length);
    const seen: Record<string, string> = {};
    const expected: Record<string, string> = {};
    for (const name of NAMES) {
      const { method, path } = ROUTES[name];
      for (const caller of callers) {
        const { headers } = caller;
        const response = await send(`/api/admin${path.replaceAll(/:\w+/g, "x")}`, { method, headers });
        await response.text();
        const outcome =
          response.status === 401 && name !== "session.start" ? 401 : response.status === 403 ? 403 : "allowed";
        seen[`${caller.name} ${name}`] = String(outcome);
        expected[`${caller.name} ${name}`] = String(expectedOf(caller.role, name));
        expect(response.status).toBeLessThan(500);
      }
    }
    expect(seen).toEqual(expected);
    expect(Object.keys(seen)).toHaveLength(NAMES.length * callers.length);
  });

  it("C-17 requires a viewer for summary, events and metrics", async () => {
    const { send, token } = await adminScene(store());
    const tokens = await Promise.all(ROLES.map((role) => token(role, role === "user" ? "ada" : undefined)));
    for (const path of ["/api/v1/admin/jobs", "/api/admin/events", "/metrics"]) {
      expect((await send(path)).status).toBe(401);
      for (const [nth, role] of ROLES.entries()) {
        const sent = tokens[nth] ?? "";
        const status = role === "user" ? 403 : 200;
        const cookie = cookieOf(await send("/api/admin/session", json({ token: sent })));
        for (const headers of [{ authorization: `Bearer ${sent}` }, { cookie }]) {
          const response = await send(path, { headers: headers as Record<string, string> });
          expect(response.status).toBe(status);
          await response.body?.cancel();
        }
      }
    }
    for (const path of ["/healthz", "/readyz", "/api/admin", "/api/admin/", "/api/admin/openapi.json"]) {
      expect({ path, status: (await send(path)).status }).toEqual({ path, status: 200 });
    }
  });

  it("ignores other authorization schemes, but not invalid bearer tokens", async () => {
    const { send, token } = await adminScene(store());
    const cookie = cookieOf(await send("/api/admin/session", json({ token: await token("viewer") })));
    const status = async (authorization: string): Promise<number> =>
      (await send("/api/admin/session", { headers: { cookie, authorization } })).status;
    for (const other of ["Basic YWRhOnNlY3JldA==", 'Digest username="ada"', "Negotiate abc", "Bearers x"])
      expect(await status(other)).toBe(200);
    for (const bearer of [
      "Bearer",
      "Bearer hf_nonsense",
      "bearer x y",
      `Bearer hf_${"0".repeat(16)}_${"0".repeat(43)}`,
    ])
      expect(await status(bearer)).toBe(401);
    expect((await send("/api/admin/session", { headers: { authorization: "Basic YTpi" } })).status).toBe(401);
  });

  it("A-06 limits a user's token to that user's jobs", async () => {
    const { hf, as } = await adminScene(store());
    const [mine, other] = [
      await hf.enqueue(mail, { to: "invalid" }, { user: "ada" }),
      await hf.enqueue(mail, { to: "invalid" }, { user: "bob" }),
    ];
    await hf.enqueue(mail, { to: "invalid" });
    const client = await as("user", "ada");
    expect((await client.jobs.list()).jobs.map(({ id }) => id)).toEqual([mine.id]);
    expect((await client.jobs.list({ user: "ada" })).jobs).toHaveLength(1);
    await expect(client.jobs.list({ user: "bob" })).rejects.toMatchObject({ status: 403, code: "FORBIDDEN" });
    expect((await client.jobs.get({ id: mine.id })).user).toBe("ada");
    for (const call of [client.jobs.get, client.jobs.cancel, client.jobs.retry]) {
      await expect(call({ id: other.id })).rejects.toMatchObject({ status: 404 });
    }
    await hf.drain();
    // The error is shown, but neither worker nor stack.
    expect(await client.jobs.get({ id: mine.id })).toMatchObject({
      worker: null,
      error: { message: "no such address" },
      attempts: [{ worker: null, error: { message: "no such address", stack: null } }],
    });
    expect(await client.jobs.retry({ id: mine.id })).toEqual({ status: "retried" });
    expect(await client.jobs.cancel({ id: mine.id })).toEqual({ status: "cancelled" });
    expect(await hf.get(other.id)).toMatchObject({ state: "dead" });
  });

  it("rejects expired tokens and their sessions", async () => {
    const clock = fakeClock();
    const { hf, send } = await adminScene(store(), {}, { clock });
    const { token, expiresAt } = await hf.tokens.create({ name: "a", role: "viewer", expiresIn: "1h" });
    const login = await send("/api/admin/session", json({ token }));
    expect(await login.json()).toMatchObject({ expiresAt: expiresAt?.toISOString() });
    for (const cookie of login.headers.getSetCookie()) expect(cookie).toContain("Max-Age=3600;");
    const cookie = cookieOf(login);
    const statuses = async (): Promise<number[]> => [
      (await send("/api/admin/session", { headers: { cookie } })).status,
      (await send("/api/admin/session", { token })).status,
    ];
    await clock.advance(3_599_999);
    expect(await statuses()).toEqual([200, 200]);
    await clock.advance(1);
    expect(await statuses()).toEqual([401, 401]);
  });

  it("rejects revoked tokens and their sessions", async () => {
    const { hf, send } = await adminScene(store());
    const admin = await hf.tokens.create({ name: "a", role: "admin" });
    const login = await send("/api/admin/session", json({ token: admin.token }));
    const cookie = cookieOf(login);
    const get = (): Promise<Response> => send("/api/admin/session", { headers: { cookie } });
    expect(await (await get()).json()).toMatchObject({ name: "token:a", role: "admin", expiresAt: expect.any(String) });
    await hf.tokens.revoke(admin.id);
    expect((await get()).status).toBe(401);
    expect((await send("/api/admin/session", { token: admin.token })).status).toBe(401);
  });
});

const json = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
  method: "POST",
  body: JSON.stringify(body),
  headers: { "content-type": "application/json", ...headers },
});
function cookieOf(response: Response): string {
  return response.headers.getSetCookie()[0]?.split(";")[0] ?? "";
}

describe("sessions", () => {
  it("use HttpOnly, SameSite cookies limited to API paths", async () => {
    const { send, token } = await adminScene("sqlite::memory:");
    const login = await send("/api/admin/session", json({ token: await token("viewer") }));
    const paths = ["/api/admin", "/api/v1/admin/jobs", "/metrics"];
    const value = cookieOf(login).slice("holdfast_session=".length);
    expect(value).toMatch(/^[\w.-]{70,}$/);
    expect(login.headers.getSetCookie()).toEqual(
      paths.map((path) => `holdfast_session=${value}; Path=${path}; Max-Age=43200; HttpOnly; SameSite=Strict`),
    );
    const secure = await send(
      "/api/admin/session",
      json({ token: await token("viewer") }, { "x-forwarded-proto": "https" }),
    );
    for (const cookie of secure.headers.getSetCookie()) expect(cookie).toMatch(/; Secure$/);
    const out = await send("/api/admin/session", { method: "DELETE", headers: { cookie: cookieOf(login) } });
    expect(out.headers.getSetCookie()).toEqual(
      paths.map((path) => `holdfast_session=; Path=${path}; Max-Age=0; HttpOnly; SameSite=Strict`),
    );
  });

  it("expire and cannot be forged", async () => {
    const sessions = new Sessions({ secret: "x".repeat(32), lengthMs: 1_000 });
    const mine = sessions.sign({ tokenId: "0123456789abcdef", expiresAt: 1_794_000_000_000 });
    expect(sessions.verify(mine, 1_793_999_999_999)).toEqual({
      tokenId: "0123456789abcdef",
      expiresAt: 1_794_000_000_000,
    });
    expect(sessions.verify(mine, 1_794_000_000_000)).toBeNull();
    const [id = "", , mac = ""] = mine.split(".");
    for (const forged of [
      `${id}.1894000000000.${mac}`,
      `fedcba9876543210.1794000000000.${mac}`,
      `${id}.1794000000000.`,
      "",
      "a.b.c",
    ]) {
      expect(sessions.verify(forged, 0)).toBeNull();
    }
    expect(new Sessions({ secret: null, lengthMs: 1 }).verify(mine, 0)).toBeNull();
  });

  it("are valid on another server with the same secret", async () => {
    const options = { sessionSecret: "a secret of at least 32 characters" };
    const one = await adminScene("sqlite::memory:", options);
    const login = await one.send("/api/admin/session", json({ token: await one.token("viewer") }));
    const signed = new Sessions({ secret: options.sessionSecret, lengthMs: 1 }).verify(
      cookieOf(login).split("=")[1] ?? "",
      0,
    );
    expect(signed).not.toBeNull();
  });
});

describe("cross-site requests", () => {
  const CASES: [headers: Record<string, string>, status: number][] = [
    [{ "sec-fetch-site": "cross-site" }, 403],
    [{ "sec-fetch-site": "same-site" }, 403],
    [{ "sec-fetch-site": "same-origin" }, 200],
    [{ "sec-fetch-site": "none" }, 200],
    [{ "sec-fetch-site": "same-origin", origin: "https://public.example" }, 200],
    [{ origin: "https://evil.example" }, 403],
    [{ origin: "null" }, 403],
    [{}, 200],
  ];

  it.each(CASES)("with %j get status %i", async (headers, status) => {
    const { send, token } = await adminScene("sqlite::memory:");
    const response = await send("/api/admin/queues/default/pause", {
      method: "POST",
      headers,
      token: await token("operator"),
    });
    expect(response.status).toBe(status);
    if (status === 403) expect(await response.json()).toMatchObject({ error: { code: "CROSS_SITE_REQUEST" } });
  });

  it("do not include those of the same origin", async () => {
    const { send, token, url } = await adminScene("sqlite::memory:");
    const response = await send("/api/admin/queues/default/pause", {
      method: "POST",
      headers: { origin: url },
      token: await token("operator"),
    });
    expect(response.status).toBe(200);
  });

  it("cannot log in or out", async () => {
    const { send, token } = await adminScene("sqlite::memory:");
    const headers = { "sec-fetch-site": "cross-site" };
    expect((await send("/api/admin/session", json({ token: await token("viewer") }, headers))).status).toBe(403);
    expect((await send("/api/admin/session", { method: "DELETE", headers })).status).toBe(403);
  });

  it("get responses that cannot be framed, sniffed or cached", async () => {
    const { send } = await adminScene("sqlite::memory:");
    for (const path of ["/healthz", "/api/admin/jobs", "/nowhere", "/api/admin/openapi.json"]) {
      const { headers } = await send(path);
      expect(headers.get("content-security-policy")).toContain("default-src 'none'");
      expect(headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("access-control-allow-origin")).toBeNull();
    }
  });
});

describe("other authentication", () => {
  it("uses the identity that the auth function returns", async () => {
    const { send } = await adminScene("sqlite::memory:", {
      auth: (request) =>
        request.headers.get("x-user") === null ? null : { name: "user:ada", role: "viewer", user: null },
    });
    expect((await send("/api/admin/jobs")).status).toBe(401);
    expect((await send("/api/admin/jobs", { headers: { "x-user": "ada" } })).status).toBe(200);
    expect((await send("/api/admin/queues/a/pause", { method: "POST", headers: { "x-user": "ada" } })).status).toBe(
      403,
    );
    expect((await send("/api/admin/session", json({ token: "x" }))).status).toBe(404);
  });

  it.each([
    [{ name: "ada", role: "user", user: null }],
    [{ name: "ada", role: "operator", user: "ada" }],
    [{ name: "ada", role: "root", user: null }],
    [{ name: "", role: "admin", user: null }],
    [{ name: "x\u0000", role: "admin", user: null }],
  ])("rejects the invalid identity %j from the auth function", async (identity) => {
    const errors: unknown[] = [];
    const { hf, send } = await adminScene("sqlite::memory:", {
      auth: () => identity as Identity,
      onError: (error) => void errors.push(error),
    });
    expect((await send("/api/admin/queues/a/pause", { method: "POST" })).status).toBe(500);
    expect(await hf.queues()).toEqual([]);
    expect(errors).toMatchObject([{ message: "the auth function failed", cause: { code: "INVALID_OPTION" } }]);
  });

  it("returns 401 if the auth function returns undefined", async () => {
    const { send } = await adminScene("sqlite::memory:", { auth: (() => undefined) as never });
    expect((await send("/api/admin/jobs")).status).toBe(401);
  });

  it("accepts only localhost in open mode", async () => {
    const { api } = await adminScene("sqlite::memory:", { auth: "open" });
    const from = (host: string): Promise<Response> =>
      api.fetch(new Request("http://127.0.0.1/api/admin/jobs", { headers: { host } }));
    for (const host of ["localhost:7700", "127.0.0.1:7700", "[::1]:7700"]) expect((await from(host)).status).toBe(200);
    const proxied = { host: "127.0.0.1", "x-forwarded-for": "6.6.6.6" };
    expect((await api.fetch(new Request("http://127.0.0.1/api/admin/jobs", { headers: proxied }))).status).toBe(403);
    for (const host of ["rebound.example:7700", "127.0.0.1.example", "10.0.0.1"])
      expect((await from(host)).status).toBe(403);
  });
});
