import { readFileSync } from "node:fs";
import { join } from "node:path";
import { holdfast } from "holdfast";
import { admin, ROUTES } from "holdfast/admin";
import { Hono } from "hono";
import { expect, it, onTestFinished } from "vitest";
import { referenceText } from "#src/admin/contract/reference.js";
import { adminScene } from "./scene.js";

type Json = { [field: string]: unknown };

it("describes every route with resolvable references", async () => {
  const { send } = await adminScene("sqlite::memory:");
  const document = (await (await send("/api/admin/openapi.json")).json()) as Json & { paths: Record<string, Json> };
  expect(document["openapi"]).toBe("3.1.0");
  for (const [name, { method, path }] of Object.entries(ROUTES)) {
    const described = document.paths[`/api/admin${path.replaceAll(/:(\w+)/g, "{$1}")}`]?.[method.toLowerCase()] as Json;
    expect(described).toMatchObject({ operationId: name, summary: expect.any(String) });
    const parameters = (described["parameters"] ?? []) as { name: string; in: string; required: boolean }[];
    const inPath = [...path.matchAll(/:(\w+)/g)].map(([, part]) => part);
    expect(parameters.filter((each) => each.in === "path").map((each) => each.name)).toEqual(inPath);
    for (const each of parameters.filter(({ in: where }) => where === "path")) expect(each.required).toBe(true);
  }
  const text = JSON.stringify(document);
  expect(text).not.toContain("$defs");
  for (const [, ref = ""] of text.matchAll(/"\$ref":"#\/([^"]+)"/g)) {
    const found = ref.split("/").reduce<unknown>((at, part) => (at as Json | undefined)?.[part], document);
    expect(found).toBeTypeOf("object");
  }
});

it("C-21 matches the generated docs/reference/http-api.md", () => {
  const page = readFileSync(join(import.meta.dirname, "../../../../docs/reference/http-api.md"), "utf8");
  const plain = (text: string): string => text.replaceAll(/ +/g, " ").replaceAll(/-{3,}/g, "---");
  expect(plain(page)).toBe(plain(referenceText()));
});

it("can be mounted in a Hono application", async () => {
  const hf = await holdfast({ store: "sqlite::memory:", logger: false });
  onTestFinished(() => hf.close());
  const { token } = await hf.tokens.create({ name: "a", role: "viewer" });
  const api = admin(hf);
  const app = new Hono();
  app.get("/", (c) => c.text("mine"));
  app.mount("/queue", (request: Request) => api.fetch(request));
  const request = (path: string): Promise<Response> =>
    Promise.resolve(app.request(path, { headers: { authorization: `Bearer ${token}` } }));
  expect(await (await request("/")).text()).toBe("mine");
  expect((await request("/queue/api/admin/jobs")).status).toBe(200);
  expect((await request("/queue/healthz")).status).toBe(200);
});

it("serves an index page with links", async () => {
  for (const basePath of ["", "/ops", "/api"]) {
    const { send } = await adminScene("sqlite::memory:", basePath === "" ? {} : { basePath });
    const found = await send(`${basePath}/api/admin`);
    expect(found.status).toBe(200);
    const page = (await found.json()) as { links: Record<string, string> };
    expect(page).toEqual({
      name: "Holdfast admin API",
      version: expect.stringMatching(/^\d+\.\d+\.\d+$/) as string,
      links: {
        openapi: `${basePath}/api/admin/openapi.json`,
        health: `${basePath}/healthz`,
        ready: `${basePath}/readyz`,
        metrics: `${basePath}/metrics`,
      },
    });
    expect((await send(String(page.links["openapi"]))).status).toBe(200);
    expect((await send("/api/admin", { method: "POST" })).status).toBe(404);
    const root = await send("/", { redirect: "manual" });
    expect({ status: root.status, location: root.headers.get("location") }).toEqual({
      status: 302,
      location: "./api/admin",
    });
  }
});
