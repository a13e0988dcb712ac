import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import { nodeListener } from "holdfast/admin";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { engineOf } from "#src/engine/client/holdfast.js";
import { until } from "#src/testing/exercise-store/until.js";
import { adminScene, adminStores } from "./scene.js";

const STORES = adminStores();

const json = (body: unknown): RequestInit => ({
  method: "POST",
  body: JSON.stringify(body),
  headers: { "content-type": "application/json" },
});

describe.each(STORES)("open mode on %s", (_name, store) => {
  it("requires tokens once the first one exists", async () => {
    const { hf, send } = await adminScene(store(), { auth: "open" });
    const status = async (init = {}): Promise<number> => (await send("/api/admin/jobs", init)).status;
    expect(await status()).toBe(200);
    expect((await send("/api/admin/session", json({ token: "x" }))).status).toBe(404);
    const { id, token } = await hf.tokens.create({ name: "first", role: "viewer" });
    const begun = performance.now();
    await until("it to be closed", async () => (await status()) === 401);
    expect(performance.now() - begun).toBeLessThan(3_000);
    expect(await status({ token })).toBe(200);
    expect((await send("/metrics")).status).toBe(401);
    expect((await send("/api/admin/session", json({ token }))).status).toBe(200);
    await hf.tokens.revoke(id);
    expect(await status()).toBe(401);
    expect(await status({ token })).toBe(401);
  });

  it("requires tokens although the only one has expired", async () => {
    const clock = fakeClock();
    const { hf, send } = await adminScene(store(), { auth: "open" }, { clock });
    await hf.tokens.create({ name: "first", role: "viewer", expiresIn: "1h" });
    await clock.advance("2h");
    expect((await send("/api/admin/jobs")).status).toBe(401);
  });

  it("reads the tokens at most once per second", async () => {
    const { hf, send } = await adminScene(store(), { auth: "open" });
    const { store: asked } = engineOf(hf);
    const listTokens = asked.listTokens.bind(asked);
    let calls = 0;
    Object.assign(asked, { listTokens: () => (calls++, listTokens()) });
    const begun = performance.now();
    await Promise.all(Array.from({ length: 40 }, () => send("/api/admin/queues").then((response) => response.text())));
    expect(calls).toBeGreaterThan(0);
    expect(calls).toBeLessThanOrEqual(1 + (performance.now() - begun) / 1_000);
  });

  it("rejects requests while the tokens cannot be read", async () => {
    const { hf, send } = await adminScene(store(), { auth: "open", onError: () => {} });
    const { store: asked } = engineOf(hf);
    Object.assign(asked, { listTokens: () => Promise.reject(new Error("out")) });
    expect((await send("/api/admin/queues")).status).toBe(500);
  });
});

describe("open mode on all interfaces", () => {
  /** The status of a request to this address with this Host header. */
  async function asked(host: string, listen: string, name = "localhost"): Promise<number | undefined> {
    const { api } = await adminScene("sqlite::memory:", { auth: "open" });
    const server = createServer(nodeListener(api));
    await new Promise<void>((resolve) => server.listen(0, listen, resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    return new Promise((resolve, reject) => {
      request({ host, port, path: "/api/admin/queues", headers: { host: name }, agent: false }, (response) => {
        response.resume();
        resolve(response.statusCode);
      })
        .on("error", reject)
        .end();
    });
  }
  const addresses = Object.values(networkInterfaces()).flatMap((entries) => entries ?? []);
  const elsewhere = addresses.find(({ internal, family }) => !internal && family === "IPv4")?.address;
  // With both kinds of addresses, those of IPv4 look different.
  const LISTEN = addresses.some(({ address }) => address === "::1") ? ["0.0.0.0", "::"] : ["0.0.0.0"];

  it.skipIf(elsewhere === undefined)("rejects network clients that claim to be localhost", async () => {
    for (const listen of LISTEN) expect(await asked(elsewhere ?? "", listen)).toBe(403);
  });

  it("accepts clients on this machine", async () => {
    for (const listen of LISTEN) expect(await asked("127.0.0.1", listen)).toBe(200);
    if (LISTEN.includes("::")) expect(await asked("::1", "::")).toBe(200);
    expect(await asked("127.0.0.1", "0.0.0.0", "jobs.example.com")).toBe(403);
  });

  it("checks the remote address on every route", async () => {
    const { api } = await adminScene("sqlite::memory:", { auth: "open", clientAddress: () => "127.0.0.1" });
    const from = async (path: string, remoteAddress: string | undefined): Promise<number> => {
      const env = { incoming: { socket: { remoteAddress } } };
      const response = await api.fetch(new Request(`http://localhost${path}`), env);
      await response.body?.cancel();
      return response.status;
    };
    for (const path of ["/api/admin/tokens", "/api/v1/admin/jobs", "/metrics", "/api/admin/events"]) {
      for (const peer of ["192.0.2.7", "::ffff:192.0.2.7", "fe80::1%eth0", "127.0.0.1.example.com"]) {
        expect(await from(path, peer)).toBe(403);
      }
      for (const peer of ["127.0.0.1", "127.8.0.1", "::ffff:127.0.0.1", "::1", undefined]) {
        expect(await from(path, peer)).toBe(200);
      }
    }
  });
});
