import { adminClient } from "holdfast/admin";
import { describe, expect, it } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { MOUNTS, type Fetch } from "./mounts.js";
import { adminScene, mail } from "./scene.js";

const JSON_BODY = { "content-type": "application/json" };

describe.each(MOUNTS)("mounted in %s", (_name, mount) => {
  describe.each([
    ["at the root", ""],
    ["under a prefix", "/ops/jobs"],
  ])("%s", (_where, prefix) => {
    it("handles bodies, errors and cookies next to other routes", async () => {
      const { api, hf, token } = await adminScene("sqlite::memory:");
      const root = await mount(api, prefix);
      const url = `${root}${prefix}`;
      const client = adminClient({ url, token: await token("operator") });

      const { id } = await client.jobs.enqueue({ type: "mail", input: { to: "Zoë 🦉" } });
      expect((await hf.get(id))?.input).toEqual({ to: "Zoë 🦉" });
      await client.queues.pause({ queue: "a/b ü" });
      expect((await hf.queues()).map(({ queue }) => queue)).toContain("a/b ü");
      expect((await client.jobs.list({ state: ["pending", "dead"], limit: 5 })).jobs).toHaveLength(1);

      const refused = await fetch(`${url}/api/admin/jobs`);
      expect(refused.status).toBe(401);
      expect(await refused.json()).toMatchObject({ error: { code: "UNAUTHENTICATED" } });
      expect(refused.headers.get("www-authenticate")).toBe("Bearer");
      expect((await fetch(`${url}/api/admin/nowhere`)).status).toBe(404);
      expect((await fetch(`${url}/api/admin/jobs`, { method: "PATCH" })).status).toBe(405);
      await expect(client.jobs.enqueue({ type: "mail", delay: "soon" })).rejects.toMatchObject({ status: 400 });

      const body = JSON.stringify({ token: await token("viewer") });
      const login = await fetch(`${url}/api/admin/session`, { method: "POST", headers: JSON_BODY, body });
      expect(login.headers.getSetCookie()).toContainEqual(expect.stringMatching(/^holdfast_session=.*HttpOnly/));
      expect(await (await fetch(`${root}/own`)).text()).toBe("own");
    });

    it("handles HEAD and rejects 10 MB", async () => {
      const { api, token } = await adminScene("sqlite::memory:");
      const url = `${await mount(api, prefix)}${prefix}`;
      const headers = { ...JSON_BODY, authorization: `Bearer ${await token("admin")}` };
      for (const path of ["/healthz", "/api/admin/jobs", "/api/admin/events"]) {
        const head = await fetch(`${url}${path}`, { method: "HEAD", headers });
        expect(head.status).toBe(200);
        expect(await head.text()).toBe("");
      }
      const body = JSON.stringify({ type: "mail", input: "x".repeat(10_000_000) });
      const status = await fetch(`${url}/api/admin/jobs`, { method: "POST", headers, body }).then(
        (response) => response.status,
        // The server hung up while it was still being sent.
        () => 413,
      );
      expect(status).toBe(413);
      expect((await fetch(`${url}/healthz`)).status).toBe(200);
    });

    it("streams events until the client disconnects", async () => {
      const { api, hf, token } = await adminScene("sqlite::memory:");
      let hasLeft = false;
      const watched: Fetch = {
        async fetch(request, env) {
          const response = await api.fetch(request, env);
          const reader = response.body?.getReader();
          const body = new ReadableStream<Uint8Array>({
            async pull(controller) {
              const { value, done } = (await reader?.read()) ?? { done: true };
              if (done) controller.close();
              else controller.enqueue(value);
            },
            cancel: (reason) => {
              hasLeft = true;
              return reader?.cancel(reason);
            },
          });
          return new Response(body, response);
        },
      };
      const url = `${await mount(watched, prefix)}${prefix}`;
      const gone = new AbortController();
      const response = await fetch(`${url}/api/admin/events`, {
        headers: { authorization: `Bearer ${await token("viewer")}` },
        signal: gone.signal,
      });
      expect(response.headers.get("content-type")).toBe("text/event-stream");
      let received = "";
      const reading = (async () => {
        for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) received += text;
      })().catch(() => {});
      await until("the first counts", () => received.includes("event: stats"));
      const { id } = await hf.enqueue(mail, { to: "ada" });
      await until("the job", () => new RegExp(`event: enqueued\ndata: .*${id}`).test(received));
      expect(hasLeft).toBe(false);
      gone.abort();
      await reading;
      await until("the stream to end", () => hasLeft);
    });
  });
});

describe("mounted in Next.js", () => {
  // Next itself is not installed here: it calls what app/api/admin/[...path]/route.ts exports, with a Request.
  it("works as route handlers", async () => {
    const { api, token } = await adminScene("sqlite::memory:");
    const handler = (request: Request): Promise<Response> => api.fetch(request);
    const route = { GET: handler, HEAD: handler, POST: handler };
    const headers = { ...JSON_BODY, authorization: `Bearer ${await token("operator")}` };
    const address = "https://shop.example/api/admin/jobs";
    const body = JSON.stringify({ type: "mail", input: { to: "ada" } });
    expect((await route.POST(new Request(address, { method: "POST", headers, body }))).status).toBe(201);
    expect(await (await route.GET(new Request(address, { headers }))).json()).toMatchObject({
      jobs: [{ type: "mail" }],
    });
    const head = await route.HEAD(new Request(address, { method: "HEAD", headers }));
    expect([head.status, await head.text()]).toEqual([200, ""]);
    const gone = await route.GET(new Request(address.replace("jobs", "events"), { headers }));
    const reader = gone.body?.getReader();
    expect(new TextDecoder().decode((await reader?.read())?.value)).toBe("retry: 2000\n\n");
    await reader?.cancel();
  });
});
