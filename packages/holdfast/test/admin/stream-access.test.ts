import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { adminScene, adminStores, type AdminScene } from "./scene.js";

const STORES = adminStores();

/** The feed ticks fifty times a second here, instead of once. */
beforeEach(() => {
  const { setInterval } = globalThis;
  const faster = (run: () => void, ms?: number): NodeJS.Timeout => setInterval(run, ms === 1_000 ? 20 : ms);
  vi.spyOn(globalThis, "setInterval").mockImplementation(faster);
});
afterEach(() => void vi.restoreAllMocks());

/** Opens a stream. `hasEnded`: by the server. */
async function openStream({ api }: AdminScene, headers: Record<string, string>): Promise<{ hasEnded: () => boolean }> {
  const { body, status } = await api.fetch(new Request("http://localhost/api/admin/events", { headers }));
  expect(status).toBe(200);
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  onTestFinished(() => reader.cancel());
  let hasEnded = false;
  void (async () => {
    while (!(await reader.read()).done);
    hasEnded = true;
  })();
  return { hasEnded: () => hasEnded };
}

describe.each(STORES)("an open event stream on %s", (_name, store) => {
  it("ends after its token was revoked", async () => {
    const scene = await adminScene(store());
    const [mine, other] = await Promise.all(
      ["mine", "other"].map((name) => scene.hf.tokens.create({ name, role: "viewer" })),
    );
    const bearer = (token = ""): Record<string, string> => ({ authorization: `Bearer ${token}` });
    const streams = [await openStream(scene, bearer(mine?.token)), await openStream(scene, bearer(mine?.token))];
    const others = await openStream(scene, bearer(other?.token));
    await scene.hf.tokens.revoke(mine?.id ?? "");
    await vi.waitUntil(() => streams.every(({ hasEnded }) => hasEnded()), { timeout: 10_000 });
    expect(others.hasEnded()).toBe(false);
  });

  it("ends after its token was revoked, where a function leaves it to tokens", async () => {
    const ada = { name: "ada", role: "viewer", user: null } as const;
    const scene = await adminScene(store(), { auth: ({ headers }) => (headers.has("x-user") ? ada : "tokens") });
    const { id, token } = await scene.hf.tokens.create({ name: "mine", role: "viewer" });
    const mine = await openStream(scene, { authorization: `Bearer ${token}` });
    const own = await openStream(scene, { "x-user": "ada" });
    await scene.hf.tokens.revoke(id);
    await vi.waitUntil(mine.hasEnded, { timeout: 10_000 });
    expect(own.hasEnded()).toBe(false);
  });

  it("ends after the first token was created", async () => {
    const scene = await adminScene(store(), { auth: "open" });
    const { hasEnded } = await openStream(scene, {});
    await scene.hf.tokens.create({ name: "first", role: "admin" });
    await vi.waitUntil(hasEnded, { timeout: 10_000 });
  });
});

it("an event stream ends with its session", async () => {
  const scene = await adminScene("sqlite::memory:", { sessionLength: "400ms" });
  const login = await scene.send("/api/admin/session", {
    method: "POST",
    body: JSON.stringify({ token: await scene.token("viewer") }),
    headers: { "content-type": "application/json" },
  });
  const [cookie = ""] = login.headers.getSetCookie()[0]?.split(";") ?? [];
  const { hasEnded } = await openStream(scene, { cookie });
  await vi.waitUntil(hasEnded, { timeout: 10_000 });
});
