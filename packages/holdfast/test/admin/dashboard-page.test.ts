import { lambdaHandler } from "holdfast/admin";
import { describe, expect, it } from "vitest";
import { serve } from "#src/admin/http/serve.js";
import { MOUNTS } from "./mounts.js";
import { adminScene } from "./scene.js";

const JOB = "0199a8f0-5b7a-7c3d-9e2f-0123456789ab";

const PAGE = { headers: { accept: "text/html,*/*;q=0.8" } };
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/** The URLs that the page loads. */
function filesOf(page: string): string[] {
  return [...page.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, url = ""]) => url);
}

describe("the dashboard's page", () => {
  it("is the same at every view, with a strict policy", async () => {
    const { send } = await adminScene("sqlite::memory:");
    const first = await send("/", PAGE);
    expect(first.headers.get("content-security-policy")).toBe(POLICY);
    expect(first.headers.get("x-content-type-options")).toBe("nosniff");
    const withoutPreload = (page: string): string => page.replaceAll(/<link rel="modulepreload"[^>]*>\n/g, "");
    const page = await first.text();
    for (const path of [
      "/jobs",
      "/jobs/0199-x",
      "/failures",
      "/schedules/a%2Fb",
      "/queues",
      "/workers",
      "/audit",
      "/tokens",
    ]) {
      const response = await send(path, PAGE);
      const shown = withoutPreload(await response.text());
      expect([path, response.status, shown]).toEqual([path, 200, withoutPreload(page)]);
    }
    // Nothing inline, and nothing from elsewhere.
    expect(page).not.toMatch(/<style|<script(?![^>]* src=)|style=|https?:/);
    const head = await send("/", { method: "HEAD", ...PAGE });
    expect([head.status, await head.text()]).toEqual([200, ""]);
  });

  it.each([
    ["/", []],
    ["/jobs", []],
    ["/jobs/0199-x", ["job"]],
    ["/queues", ["more"]],
    ["/schedules/a", ["more"]],
  ])("loads the modules of %s before its script asks for them", async (path, names) => {
    const { send } = await adminScene("sqlite::memory:");
    const page = await (await send(path, PAGE)).text();
    const preloaded = [...page.matchAll(/rel="modulepreload" href="\/assets\/(\w+)-/g)].map(([, file]) => file);
    expect(preloaded).toEqual(names);
    for (const file of filesOf(page)) expect((await send(file)).status).toBe(200);
  });

  it("loads files that can be cached forever, compressed if the client accepts it", async () => {
    const { send } = await adminScene("sqlite::memory:");
    const files = filesOf(await (await send("/", PAGE)).text());
    expect(files.length).toBeGreaterThanOrEqual(2);
    for (const file of files) {
      const compressed = await send(file, { headers: { "accept-encoding": "gzip" } });
      expect(compressed.headers.get("content-encoding")).toBe("gzip");
      expect(compressed.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
      expect(compressed.headers.get("content-type")).toMatch(/^text\/(?:javascript|css); charset=utf-8$/);
      const plain = await send(file, { headers: { "accept-encoding": "identity" } });
      expect(plain.headers.get("content-encoding")).toBeNull();
      expect(await plain.text()).toBe(await compressed.text());
      const refused = await send(file, { headers: { "accept-encoding": "gzip;q=0, br" } });
      expect(refused.headers.get("content-encoding")).toBeNull();
    }
    for (const path of ["/assets/none.js", "/assets/__proto__", "/assets/constructor", "/assets/..%2f..%2fetc"]) {
      expect((await send(path)).status).toBe(404);
    }
  });

  it("is not shown to programs, on unknown paths, or if it is off", async () => {
    const { send } = await adminScene("sqlite::memory:");
    expect((await send("/jobs")).status).toBe(404);
    expect((await send("/unknown", PAGE)).status).toBe(404);
    expect((await send("/jobs/a/b", PAGE)).status).toBe(404);
    expect((await send("/", { method: "POST", ...PAGE })).status).toBe(404);
    expect(await (await send("/api/admin/jobs", PAGE)).json()).toMatchObject({ error: { code: "UNAUTHENTICATED" } });
    const off = await adminScene("sqlite::memory:", { dashboard: false });
    expect((await off.send("/jobs", PAGE)).status).toBe(404);
    await expect(adminScene("sqlite::memory:", { dashboard: "no" as never })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: "dashboard must be true or false",
    });
  });

  it("has the prefix in its URLs, whether the framework removes it or not", async () => {
    const { api } = await adminScene("sqlite::memory:", { basePath: "/ops/queue" });
    const get = (path: string): Promise<Response> => api.fetch(new Request(`http://localhost${path}`, PAGE));
    for (const path of ["/ops/queue", "/ops/queue/", "/ops/queue/jobs/x", "/", "/jobs"]) {
      const files = filesOf(await (await get(path)).text());
      expect(files.length).toBeGreaterThan(1);
      for (const file of files) {
        expect(file).toMatch(/^\/ops\/queue\/assets\//);
        expect((await get(file)).status).toBe(200);
        expect((await get(file.slice("/ops/queue".length))).status).toBe(200);
      }
    }
  });

  describe.each(MOUNTS)("mounted in %s", (name, mount) => {
    it.each(["/jobs", "/schedules", "/ops", "/assets"])("works below %s, stripped or not", async (prefix) => {
      const { api, token } = await adminScene("sqlite::memory:", { basePath: prefix });
      const address = await mount(api, prefix);
      const viewer = await token("viewer");
      const get = async (path: string, as: "browser" | "program"): Promise<number> => {
        const headers = as === "browser" ? PAGE.headers : { authorization: `Bearer ${viewer}` };
        const stripping = await fetch(`${address}${prefix}${path}`, { headers });
        // Frameworks that do not strip the prefix pass on this path.
        const whole = await api.fetch(new Request(`http://localhost${prefix}${path}`, { headers }));
        await stripping.body?.cancel();
        expect([name, path, stripping.status]).toEqual([name, path, whole.status]);
        return whole.status;
      };
      const page = await (await fetch(`${address}${prefix}/jobs/${JOB}`, PAGE)).text();
      const files = filesOf(page);
      expect(files.length).toBeGreaterThan(1);
      expect(files.every((file) => file.startsWith(`${prefix}/assets/`))).toBe(true);
      for (const file of files) expect([file, await get(file.slice(prefix.length), "program")]).toEqual([file, 200]);
      for (const view of [
        "/",
        "/jobs",
        `/jobs/${JOB}`,
        "/failures/0a1b2c",
        "/schedules/nightly",
        "/schedules/jobs",
        "/queues",
      ])
        expect([view, await get(view, "browser")]).toEqual([view, 200]);
      for (const path of ["/healthz", "/metrics", "/api/admin/jobs", "/api/v1/admin/jobs"])
        expect([path, await get(path, "program")]).toEqual([path, 200]);
      expect(await get("/no/where", "browser")).toBe(404);
      expect(await get("/api/admin/nowhere", "program")).toBe(404);
    });
  });

  it("leaves the compression of files to Next.js", async () => {
    const { api } = await adminScene("sqlite::memory:");
    const [file = ""] = filesOf(await (await api.fetch(new Request("http://localhost/", PAGE))).text());
    const request = new Request(`http://localhost${file}`, { headers: { "accept-encoding": "gzip" } });
    const [compressed, plain] = [
      await api.fetch(request.clone()),
      await api.fetch(Object.assign(request, { nextUrl: {} })),
    ];
    expect([compressed.headers.get("content-encoding"), plain.headers.get("content-encoding")]).toEqual(["gzip", null]);
    expect(await plain.text()).not.toBe("");
  });

  it("works in a Lambda function", async () => {
    const { api } = await adminScene("sqlite::memory:");
    const handler = lambdaHandler(api);
    const get = (path: string, headers: Record<string, string>): ReturnType<typeof handler> =>
      handler({
        version: "2.0",
        rawPath: path,
        rawQueryString: "",
        headers: { host: "abc.example", ...headers },
        requestContext: { http: { method: "GET", path, sourceIp: "203.0.113.7" }, domainName: "abc.example" },
        isBase64Encoded: false,
      });
    const page = await get("/", PAGE.headers);
    expect(page).toMatchObject({ statusCode: 200, isBase64Encoded: false });
    const [file = ""] = filesOf(page.body);
    const plain = await get(file, {});
    const compressed = await get(file, { "accept-encoding": "gzip" });
    expect(compressed).toMatchObject({
      statusCode: 200,
      isBase64Encoded: true,
      headers: { "content-encoding": "gzip" },
    });
    const stream = new Blob([Buffer.from(compressed.body, "base64")]).stream();
    expect(await new Response(stream.pipeThrough(new DecompressionStream("gzip"))).text()).toBe(plain.body);
  });

  it("is what browsers get from holdfast serve, and programs the API", async () => {
    const { api } = await adminScene("sqlite::memory:");
    const server = await serve(api, { host: "127.0.0.1", port: 0 });
    expect(await (await fetch(server.url, PAGE)).text()).toContain('<div id="app">');
    expect(await (await fetch(server.url)).json()).toMatchObject({ name: "Holdfast admin API" });
    await server.stop();
  });
});
