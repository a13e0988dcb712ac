import { holdfast } from "holdfast";
import { admin } from "holdfast/admin";
import { Hono } from "hono";
import { describe, expect, it, onTestFinished } from "vitest";
import { serve } from "#src/admin/http/serve.js";
import { adminScene, adminStores } from "./scene.js";

const STORES = adminStores();

/** Stores cookies as a browser does, and returns those whose path matches (RFC 6265, 5.1.4). */
class CookieJar {
  readonly #cookies = new Map<string, { name: string; value: string; path: string }>();

  store(response: Response): void {
    for (const line of response.headers.getSetCookie()) {
      const [pair = "", ...attributes] = line.split("; ");
      const [name = "", value = ""] = pair.split("=");
      const attribute = (key: string): string =>
        attributes.find((each) => each.startsWith(`${key}=`))?.slice(key.length + 1) ?? "";
      const path = attribute("Path");
      // Identified by name and path: a new cookie replaces the old one, and an expired one deletes it.
      if (attribute("Max-Age") === "0") this.#cookies.delete(`${name} ${path}`);
      else this.#cookies.set(`${name} ${path}`, { name, value, path });
    }
  }

  for(path: string): Record<string, string> {
    const sent = [...this.#cookies.values()].filter((cookie) => isMatch(path, cookie.path));
    return sent.length === 0 ? {} : { cookie: sent.map(({ name, value }) => `${name}=${value}`).join("; ") };
  }
}

function isMatch(requested: string, path: string): boolean {
  if (requested === path) return true;
  return requested.startsWith(path) && (path.endsWith("/") || requested[path.length] === "/");
}

const json = (body: unknown): RequestInit => ({
  method: "POST",
  body: JSON.stringify(body),
  headers: { "content-type": "application/json" },
});
const PATHS = ["/api/admin/jobs", "/api/admin/session", "/api/admin/events", "/api/v1/admin/jobs", "/metrics"];

describe.each(STORES)("browser session on %s", (_name, store) => {
  it("is sent to the API paths and no others", async () => {
    const { send, token } = await adminScene(store());
    const jar = new CookieJar();
    const request = async (path: string, method = "GET"): Promise<number> => {
      const response = await send(path, { method, headers: jar.for(path) });
      await response.body?.cancel();
      jar.store(response);
      return response.status;
    };
    expect(await request("/api/admin/jobs")).toBe(401);
    jar.store(await send("/api/admin/session", json({ token: await token("viewer") })));
    for (const path of PATHS) expect([path, await request(path)]).toEqual([path, 200]);
    for (const path of ["/", "/api", "/api/administrators", "/api/v1/admin", "/api/v1/orders", "/metrics2", "/ops"])
      expect(jar.for(path)).toEqual({});
    expect(await request("/api/admin/session", "DELETE")).toBe(200);
    for (const path of PATHS) expect([path, await request(path)]).toEqual([path, 401]);
  });

  it.each(["stripped by Hono's mount", "left in the request"])("works under a base path that is %s", async (how) => {
    const hf = await holdfast({ store: store(), logger: false });
    const api = admin(hf, { basePath: "/ops/queue" });
    const app = new Hono();
    app.get("/orders", (c) => c.text("mine"));
    if (how.startsWith("stripped")) app.mount("/ops/queue", api.fetch);
    else app.all("/ops/queue/*", (c) => api.fetch(c.req.raw, c.env));
    const fetching = async (request: Request, env?: unknown): Promise<Response> => app.fetch(request, env);
    const serving = await serve({ fetch: fetching }, { host: "127.0.0.1", port: 0 });
    onTestFinished(async () => {
      await api.close();
      await serving.stop();
      await hf.close();
    });
    const jar = new CookieJar();
    const request = async (path: string, init: RequestInit = {}): Promise<number> => {
      const response = await fetch(`${serving.url}${path}`, {
        ...init,
        headers: { ...jar.for(path), ...(init.headers as Record<string, string>) },
      });
      await response.body?.cancel();
      jar.store(response);
      return response.status;
    };
    const { token } = await hf.tokens.create({ name: "a", role: "viewer" });
    expect(await request("/ops/queue/api/admin/session", json({ token }))).toBe(200);
    for (const path of PATHS) expect([path, await request(`/ops/queue${path}`)]).toEqual([path, 200]);
    expect(await request("/ops/queue/api/admin/nowhere")).toBe(404);
    expect(await request("/ops/queue/api/admin/jobs", { method: "PUT" })).toBe(405);
    for (const path of ["/orders", "/ops", "/ops/queue", "/api/admin/jobs"]) expect(jar.for(path)).toEqual({});
    expect(await request("/ops/queue/api/admin/session", { method: "DELETE" })).toBe(200);
    expect(await request("/ops/queue/api/admin/jobs")).toBe(401);
    expect(api.openApi()).toMatchObject({ servers: [{ url: "/ops/queue" }] });
  });
});

describe("basePath", () => {
  it.each(["/api", "/api/admin", "/metrics"])("may look like an API path: %s", async (basePath) => {
    const { send, token } = await adminScene("sqlite::memory:", { basePath });
    const viewer = await token("viewer");
    expect((await send("/api/admin/jobs", { token: viewer })).status).toBe(200);
    expect((await send(`${basePath}/api/admin/jobs`, { token: viewer })).status).toBe(200);
  });

  it("defaults to the root", async () => {
    const { api } = await adminScene("sqlite::memory:", { basePath: "/" });
    expect(api.openApi()).toMatchObject({ servers: [{ url: "/" }] });
  });

  it.each([
    "ops",
    "/ops/",
    "//ops",
    "/../ops",
    "/a/./b",
    "/o ps",
    "/ops;x",
    "/ops?x",
    "/é",
    "/%2e",
    `/${"a".repeat(300)}`,
    5,
  ])("rejects %j", async (basePath) => {
    const hf = await holdfast({ store: "sqlite::memory:", logger: false });
    onTestFinished(() => hf.close());
    expect(() => admin(hf, { basePath: basePath as string })).toThrow(/^basePath: /);
  });
});
