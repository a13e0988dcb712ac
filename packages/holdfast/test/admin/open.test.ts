import { describe, expect, it } from "vitest";
import { Holdfast } from "#src/engine/holdfast.js";
import { until } from "#src/testing/exercise-store/until.js";
import { adminScene, STORES } from "./scene.js";

const json = (body: unknown): RequestInit => ({
  method: "POST",
  body: JSON.stringify(body),
  headers: { "content-type": "application/json" },
});

describe.each(STORES)("a server that was started open on %s", (_name, store) => {
  it("asks for a token from when there is one, and goes on asking when that is revoked", async () => {
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

  it("costs the store one reading of the tokens a second, however many ask", async () => {
    const { hf, send } = await adminScene(store(), { auth: "open" });
    const { store: asked } = Holdfast.coreOf(hf);
    const tokens = asked.tokens.bind(asked);
    let calls = 0;
    Object.assign(asked, { tokens: () => (calls++, tokens()) });
    const begun = performance.now();
    await Promise.all(Array.from({ length: 40 }, () => send("/api/admin/queues").then((answer) => answer.text())));
    expect(calls).toBeGreaterThan(0);
    expect(calls).toBeLessThanOrEqual(1 + (performance.now() - begun) / 1_000);
  });

  it("lets nobody in while it cannot be known whether there is a token", async () => {
    const { hf, send } = await adminScene(store(), { auth: "open", onError: () => {} });
    const { store: asked } = Holdfast.coreOf(hf);
    Object.assign(asked, { tokens: () => Promise.reject(new Error("out")) });
    expect((await send("/api/admin/queues")).status).toBe(500);
  });
});
