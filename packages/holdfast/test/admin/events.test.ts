import { get, type IncomingMessage } from "node:http";
import { holdfast } from "holdfast";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { adminScene, adminStores, mail } from "./scene.js";

const STORES = adminStores();

/** The feed ticks five times a second here, instead of once. */
const POLL_MS = 200;
beforeEach(() => {
  const { setInterval } = globalThis;
  const faster = (run: () => void, ms?: number): NodeJS.Timeout => setInterval(run, ms === 1_000 ? POLL_MS : ms);
  vi.spyOn(globalThis, "setInterval").mockImplementation(faster);
});
afterEach(() => void vi.restoreAllMocks());

interface SentEvent {
  event: string;
  data: Record<string, unknown>;
}

/** Reads an event stream in the background; the array grows as events arrive. */
async function readEvents(
  send: (path: string, init: { token: string }) => Promise<Response>,
  token: string,
): Promise<SentEvent[]> {
  const response = await send("/api/admin/events", { token });
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  expect(response.headers.get("cache-control")).toBe("no-store, no-transform");
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  onTestFinished(() => reader?.cancel().catch(() => {}));
  const received: SentEvent[] = [];
  const read = async (): Promise<void> => {
    let text = "";
    for (;;) {
      const { value, done } = (await reader?.read()) ?? { value: "", done: true };
      if (done) return;
      text += value;
      const parts = text.split("\n\n");
      text = parts.pop() ?? "";
      for (const part of parts) {
        const [, event, data] = /^event: (.+)\ndata: (.+)$/.exec(part) ?? [];
        if (event !== undefined && data !== undefined)
          received.push({ event, data: JSON.parse(data) as SentEvent["data"] });
      }
    }
  };
  read().catch(() => {});
  return received;
}

describe.each(STORES)("events on %s", (_name, store) => {
  it("include counts and the events of this process", async () => {
    const { hf, send, token } = await adminScene(store());
    const received = await readEvents(send, await token("viewer"));
    await until("the first counts", () => received.some(({ event }) => event === "stats"));
    const { id } = await hf.enqueue(mail, { to: "ada" });
    await hf.drain();
    await until("the completed event", () =>
      received.some(({ event, data }) => event === "completed" && data["id"] === id),
    );
    expect(received.find(({ event }) => event === "completed")?.data).not.toHaveProperty("output");
    await until("its count", () =>
      received.some(
        ({ event, data }) => event === "stats" && (data["states"] as { completed: number }).completed === 1,
      ),
    );
  });

  it("poll the store once for all clients", async () => {
    const { hf, send, token } = await adminScene(store());
    const { store: asked } = (await import("#src/engine/client/holdfast.js")).engineOf(hf);
    const calls: unknown[][] = [];
    for (const name of ["stats", "list"] as const) {
      const before = asked[name].bind(asked) as (...given: unknown[]) => Promise<never>;
      Object.assign(asked, {
        [name]: (...given: unknown[]) => {
          calls.push([name, ...given]);
          return before(...given);
        },
      });
    }
    const viewer = await token("viewer");
    const viewers = await Promise.all(Array.from({ length: 20 }, () => readEvents(send, viewer)));
    const counted = (received: SentEvent[]): number => received.filter(({ event }) => event === "stats").length;
    await until("two stats events each", () => viewers.every((received) => counted(received) >= 2));
    const ticks = Math.max(...viewers.map(counted));
    // A poll may be in flight, and the counts of another are sent up to 200 ms later.
    expect(calls.length).toBeLessThanOrEqual(3 * (ticks + 2));
    for (const [name, , page] of calls) if (name === "list") expect(page).toMatchObject({ payloads: false });
  });

  it("show changes by other processes behind a backlog", async () => {
    const { hf, send, token } = await adminScene(store());
    const { id } = await hf.enqueue(mail, { to: "first" });
    await hf.enqueueMany(
      mail,
      Array.from({ length: 150 }, (_, nth) => ({ to: `${nth}` })),
    );
    const received = await readEvents(send, await token("viewer"));
    await until("two polls", () => received.filter(({ event }) => event === "stats").length > 1);
    // Directly on the store, so that this process emits no event.
    const { store: shared } = (await import("#src/engine/client/holdfast.js")).engineOf(hf);
    await shared.cancel([id]);
    await until("the final state", () =>
      received.some(({ event, data }) => event === "job" && data["id"] === id && data["state"] === "cancelled"),
    );
  });
});

describe.each(STORES)("slow clients on %s", (_name, store) => {
  it("receive a missed event while others receive all", async () => {
    const { hf, send, token, url } = await adminScene(store());
    const { events } = (await import("#src/engine/client/holdfast.js")).engineOf(hf);
    const viewer = await token("viewer");
    const received = await readEvents(send, viewer);
    // Reads the headers and nothing after them.
    const slow = await new Promise<IncomingMessage>((resolve, reject) => {
      const headers = { authorization: `Bearer ${viewer}` };
      get(`${url}/api/admin/events`, { headers }, resolve).on("error", reject);
    });
    onTestFinished(() => void slow.destroy());
    const queue = "x".repeat(100_000);
    const paused = (): number => received.filter(({ event }) => event === "paused").length;
    // Far more than fits into the socket buffers.
    const [rounds, each] = [8, 40];
    for (let round = 1; round <= rounds; round++) {
      for (let nth = 0; nth < each; nth++) events.emit("paused", { queue });
      await until("the other client to read them", () => paused() === round * each);
    }
    let [bytes, last, missed] = [0, "", false];
    slow.setEncoding("utf8");
    slow.on("data", (chunk: string) => {
      bytes += chunk.length;
      last = last.slice(-100) + chunk;
      missed ||= last.includes("event: missed\ndata: {}\n\n");
    });
    await until("the missed event", () => missed);
    expect(bytes).toBeGreaterThan(100_000);
    expect(bytes).toBeLessThan(rounds * each * 100_000 * 0.75);
  });
});

describe("the limit of streams per caller", () => {
  it("counts a token and its sessions together", async () => {
    const { send, token } = await adminScene("sqlite::memory:", { streamsPerCaller: 3 });
    const [greedy, other] = [await token("viewer"), await token("viewer")];
    const streams = await Promise.all([1, 2, 3].map(() => send("/api/admin/events", { token: greedy })));
    onTestFinished(async () => {
      for (const { body } of streams) await body?.cancel();
    });
    const login = await send("/api/admin/session", {
      method: "POST",
      body: JSON.stringify({ token: greedy }),
      headers: { "content-type": "application/json" },
    });
    const cookie = login.headers.getSetCookie()[0]?.split(";")[0] ?? "";
    for (const init of [{ token: greedy }, { headers: { cookie } }]) {
      const refused = await send("/api/admin/events", init);
      expect(refused.status).toBe(429);
      expect(refused.headers.get("retry-after")).toBe("5");
      expect(await refused.json()).toMatchObject({ error: { code: "TOO_MANY_STREAMS" } });
    }
    await readEvents(send, other);
    await streams[0]?.body?.cancel();
    await until("a stream to be free", async () => {
      const again = await send("/api/admin/events", { token: greedy });
      if (again.status === 200) streams.push(again);
      return again.status === 200;
    });
  });

  it("counts by name with an auth function", async () => {
    const { send } = await adminScene("sqlite::memory:", {
      streamsPerCaller: 1,
      auth: (request) => ({ name: request.headers.get("x-name") ?? "", role: "viewer", user: null }),
    });
    const open = async (name: string): Promise<number> => {
      const response = await send("/api/admin/events", { headers: { "x-name": name } });
      if (response.status === 200) onTestFinished(() => response.body?.cancel());
      return response.status;
    };
    expect(await open("ada")).toBe(200);
    expect(await open("ada")).toBe(429);
    expect(await open("bob")).toBe(200);
  });
});

it("does not open a stream for HEAD", async () => {
  const { send, token } = await adminScene("sqlite::memory:");
  const viewer = await token("viewer");
  for (let nth = 0; nth < 210; nth++)
    expect((await send("/api/admin/events", { method: "HEAD", token: viewer })).status).toBe(200);
  const received = await readEvents(send, viewer);
  await until("the counts", () => received.some(({ event }) => event === "stats"));
});

it("shows changes by another process", async () => {
  const file = `sqlite:${(await import("node:os")).tmpdir()}/holdfast-events-${process.pid}-${Date.now()}.db`;
  const { send, token } = await adminScene(file);
  const other = await holdfast({ store: file, jobs: [mail], logger: false });
  onTestFinished(() => other.close());
  await other.enqueue(mail, { to: "first" });
  const received = await readEvents(send, await token("viewer"));
  await until("the first poll", () => received.some(({ event }) => event === "stats"));
  const { id } = await other.enqueue(mail, { to: "ada" });
  await until("the new job", () =>
    received.some(({ event, data }) => event === "job" && data["id"] === id && data["state"] === "pending"),
  );
  for (const changes of [
    { tags: ["new"] },
    { maxAttempts: 9 },
    { expiresAt: Date.now() + 3_600_000 },
    { input: { to: "bob" } },
  ]) {
    received.length = 0;
    await other.update(id, changes);
    await until(`the new ${Object.keys(changes)[0]}`, () =>
      received.some(({ event, data }) => event === "job" && data["id"] === id),
    );
  }
  await other.drain();
  await until("the final state", () =>
    received.some(({ event, data }) => event === "job" && data["id"] === id && data["state"] === "completed"),
  );
});
