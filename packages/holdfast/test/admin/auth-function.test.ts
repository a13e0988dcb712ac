import type { AdminOptions, Identity } from "holdfast/admin";
import { describe, expect, it } from "vitest";
import { adminScene, adminStores, type AdminScene } from "./scene.js";

const STORES = adminStores();

const ADA: Identity = { name: "ada@example.com", role: "viewer", user: null };

/** A site: `ada` is signed in, `bob` may not call the API, and others need an API token. */
const auth: AdminOptions["auth"] = (request) => {
  const user = request.headers.get("x-user");
  if (user === null) return "tokens";
  return user === "ada" ? ADA : null;
};

type Sent = Record<string, string>;
const bearer = (token: string): Sent => ({ authorization: `Bearer ${token}` });

async function statusOf({ send }: Pick<AdminScene, "send">, headers: Sent, path = "/api/admin/jobs"): Promise<number> {
  const response = await send(path, { headers });
  await response.text();
  return response.status;
}

function signIn({ send }: AdminScene, token: string, headers: Sent = {}): Promise<Response> {
  return send("/api/admin/session", {
    method: "POST",
    body: JSON.stringify({ token }),
    headers: { "content-type": "application/json", ...headers },
  });
}

const cookieOf = (response: Response): string => response.headers.getSetCookie()[0]?.split(";")[0] ?? "";

describe.each(STORES)("an auth function that leaves requests to API tokens, on %s", (_name, store) => {
  it("C-17 accepts a valid token with its role, and its own users", async () => {
    const scene = await adminScene(store(), { auth });
    const viewer = await scene.token("viewer");
    const session = await scene.send("/api/admin/session", { token: viewer });
    expect(await session.json()).toMatchObject({ name: "token:viewer", role: "viewer" });
    for (const path of ["/api/admin/jobs", "/api/v1/admin/jobs", "/metrics"]) {
      expect(await statusOf(scene, bearer(viewer), path)).toBe(200);
      expect(await statusOf(scene, { "x-user": "ada" }, path)).toBe(200);
    }
    const pause = (token: string): Promise<Response> =>
      scene.send("/api/admin/queues/a/pause", { method: "POST", token });
    expect((await pause(viewer)).status).toBe(403);
    expect((await pause(await scene.token("operator"))).status).toBe(200);
    const { id, token } = await scene.hf.tokens.create({ name: "ci", role: "operator" });
    expect((await pause(token)).status).toBe(200);
    expect((await scene.hf.audit.list({ actor: "token:ci" })).entries).toMatchObject([{ detail: { token: id } }]);
  });

  it("C-17 rejects every request without a valid token", async () => {
    const scene = await adminScene(store(), { auth });
    // As long as there are no tokens, too, and from localhost.
    expect(await statusOf(scene, {})).toBe(401);
    const revoked = await scene.hf.tokens.create({ name: "old", role: "admin" });
    expect(await statusOf(scene, bearer(revoked.token))).toBe(200);
    await scene.hf.tokens.revoke(revoked.id);
    const forged = `holdfast_session=${"0".repeat(16)}.1999999999999.${"A".repeat(43)}`;
    for (const headers of [{}, bearer(revoked.token), bearer("hf_guess"), bearer(""), { cookie: forged }] as Sent[]) {
      for (const path of ["/api/admin/jobs", "/api/v1/admin/jobs", "/api/admin/events", "/metrics"]) {
        expect(await statusOf(scene, headers, path)).toBe(401);
      }
    }
  });

  it("C-17 rejects whom the function rejects, whatever credentials they send", async () => {
    const scene = await adminScene(store(), { auth });
    const token = await scene.token("admin");
    const cookie = cookieOf(await signIn(scene, token));
    expect(await statusOf(scene, { cookie })).toBe(200);
    for (const credentials of [{}, bearer(token), { cookie }] as Sent[]) {
      expect(await statusOf(scene, { "x-user": "bob", ...credentials })).toBe(401);
    }
    // An identity is not raised by a token that is sent with it.
    const purge = await scene.send("/api/admin/jobs/x", {
      method: "DELETE",
      headers: { "x-user": "ada", ...bearer(token) },
    });
    expect(purge.status).toBe(403);
  });

  it("C-17 has sessions for the requests that it leaves to tokens only", async () => {
    const scene = await adminScene(store(), { auth });
    const { id, token } = await scene.hf.tokens.create({ name: "ci", role: "viewer" });
    for (const user of ["ada", "bob"]) {
      const refused = await signIn(scene, token, { "x-user": user });
      expect([refused.status, refused.headers.getSetCookie()]).toEqual([404, []]);
    }
    expect((await signIn(scene, "hf_guess")).status).toBe(401);
    expect((await signIn(scene, token, { "sec-fetch-site": "cross-site" })).status).toBe(403);
    const cookie = cookieOf(await signIn(scene, token));
    expect(await statusOf(scene, { cookie })).toBe(200);
    expect(await statusOf(scene, { cookie, "sec-fetch-site": "cross-site" })).toBe(403);
    await scene.hf.tokens.revoke(id);
    expect(await statusOf(scene, { cookie })).toBe(401);
  });
});

describe("an auth function", () => {
  it.each([undefined, null])("that returns %s rejects a valid token", async (decision) => {
    const scene = await adminScene("sqlite::memory:", {
      auth: (async () => decision) as AdminOptions["auth"] & object,
    });
    const token = await scene.token("admin");
    expect(await statusOf(scene, bearer(token))).toBe(401);
    expect((await signIn(scene, token)).status).toBe(404);
  });

  it.each(["open", "token", "", true, {}])("cannot open the API with %j", async (decision) => {
    const errors: unknown[] = [];
    const scene = await adminScene("sqlite::memory:", {
      auth: (() => decision) as never,
      onError: (error) => void errors.push(error),
    });
    expect(await statusOf(scene, {})).toBe(500);
    expect(await statusOf(scene, bearer(await scene.token("admin")))).toBe(500);
    expect(errors).toMatchObject([{ message: "the auth function failed" }, { message: "the auth function failed" }]);
  });

  it("limits guesses of tokens per address", async () => {
    const scene = await adminScene("sqlite::memory:", { auth, loginAttempts: 2 });
    for (const status of [401, 401, 429]) expect((await signIn(scene, "hf_guess")).status).toBe(status);
  });
});
