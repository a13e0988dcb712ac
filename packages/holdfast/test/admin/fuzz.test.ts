import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { sendsRandomRequests } from "./random-requests.js";
import { adminScene } from "./scene.js";

sendsRandomRequests({ SQLite: 25, PostgreSQL: 10 });

describe("hostile requests", () => {
  it("with 10 MB bodies are rejected without filling the memory", { timeout: 60_000 }, async () => {
    const scene = await adminScene("sqlite::memory:");
    const token = await scene.token("admin");
    const body = JSON.stringify({ type: "mail", input: "x".repeat(10_000_000) });
    const headers = { "content-type": "application/json" };
    const before = process.memoryUsage().rss;
    for (let round = 0; round < 3; round++) {
      const statuses = await Promise.all(
        Array.from({ length: 10 }, () =>
          scene.send("/api/admin/jobs", { method: "POST", body, headers, token }).then(
            async (response) => {
              await response.text().catch(() => {});
              return response.status;
            },
            // The server closed the connection while the body was being sent.
            () => 413,
          ),
        ),
      );
      expect(new Set(statuses)).toEqual(new Set([413]));
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(400_000_000);
    expect((await scene.send("/healthz")).status).toBe(200);
  });

  it.each([
    ["100,000 nested arrays", `{"type":"mail","input":${"[".repeat(100_000)}${"]".repeat(100_000)}}`],
    ["100,000 nested objects", `{"type":"mail","input":${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}}`],
    ["a number with 10,000 digits", `{"type":"mail","priority":${"9".repeat(10_000)}}`],
    ["invalid JSON", `{"type":`],
    ["an array", "[]"],
    ["a string", '"mail"'],
    ["a __proto__ key", '{"__proto__":{"type":"mail"},"type":"mail"}'],
    ["the same key twice", '{"type":"a","type":5}'],
  ])("are rejected with a message: %s", async (_what, body) => {
    const scene = await adminScene("sqlite::memory:");
    const response = await scene.send("/api/admin/jobs", {
      method: "POST",
      body,
      headers: { "content-type": "application/json" },
      token: await scene.token("admin"),
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { message: expect.any(String) } });
  });

  it("with another content type are rejected", async () => {
    const scene = await adminScene("sqlite::memory:");
    const token = await scene.token("admin");
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data",
      "application/json-patch",
      "",
    ]) {
      const response = await scene.send("/api/admin/jobs", {
        method: "POST",
        body: '{"type":"mail"}',
        headers: { "content-type": type },
        token,
      });
      expect(response.status).toBe(415);
    }
  });

  it.each([
    "/api/admin/../admin/jobs",
    "/api/admin//jobs",
    "/api/admin/jobs/",
    "/api/admin/jobs/%2e%2e/stats",
    "/api/admin/jobs/%",
    "/api/admin/jobs/%ff%fe",
    "/api/admin/jobs/%00",
    "/api/admin/jobs/..%2f..%2f",
    `/api/admin/jobs/${"a".repeat(8_000)}`,
    "/api/admin/jobs?limit=5&limit=6",
    "/api/admin/jobs?limit=1e3",
    "/api/admin/jobs?offset=10001",
    "/api/admin/jobs?limit=0",
    "/api/admin/jobs?cursor=%00",
    "/api/admin/jobs?unknown=1",
    "/api/admin/jobs?state=dead,nope",
    "/api/admin/jobs?createdAfter=yesterday",
    "/api/admin/jobs?id=nope",
    "/api/admin/jobs?parent=nope",
    "/api/admin/jobs?priority=101",
    "/api/admin/jobs?order=random",
    "/api/admin/jobs?input=text",
    "/api/admin/jobs?input={}",
    "/api/admin/jobs?input=[]",
    '/api/admin/jobs?input={"text":"a","equals":1}',
    '/api/admin/jobs?input={"path":"a..b","text":"a"}',
    `/api/admin/jobs?input=${"[".repeat(5_000)}`,
    '/api/admin/jobs?input={"text":"a"}&offset=1',
    "/api/admin/jobs/count?atMost=0",
    "/api/admin/jobs/count?limit=1",
  ])("cause no internal error: %s", async (path) => {
    const scene = await adminScene("sqlite::memory:");
    const token = await scene.token("admin");
    const status = await new Promise<number>((resolve, reject) => {
      const { hostname, port } = new URL(scene.url);
      const socket = connect(Number(port), hostname, () => {
        socket.write(
          `GET ${path} HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${token}\r\nconnection: close\r\n\r\n`,
        );
      });
      let text = "";
      socket.on("data", (chunk) => (text += chunk.toString()));
      socket.on("end", () => resolve(Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1])));
      socket.on("error", reject);
    });
    expect(status).toBeGreaterThanOrEqual(200);
    expect(status).toBeLessThan(500);
    if (path.includes("?")) expect(status).toBe(400);
  });
});
