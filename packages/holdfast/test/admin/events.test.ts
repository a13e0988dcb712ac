import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { holdfast } from "holdfast";
import { describe, expect, it, onTestFinished } from "vitest";
import { newViewer } from "#src/admin/viewer.js";
import { until } from "#src/testing/exercise-store/until.js";
import { adminScene, mail, STORES } from "./scene.js";

interface Told {
  event: string;
  data: Record<string, unknown>;
}

/** What a viewer is told, as it comes. */
async function view(
  send: (path: string, init: { token: string }) => Promise<Response>,
  token: string,
): Promise<Told[]> {
  const response = await send("/api/admin/events", { token });
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  onTestFinished(() => reader?.cancel().catch(() => {}));
  const told: Told[] = [];
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
        if (event !== undefined && data !== undefined) told.push({ event, data: JSON.parse(data) as Told["data"] });
      }
    }
  };
  read().catch(() => {});
  return told;
}

describe.each(STORES)("events on %s", (_name, store) => {
  it("tell the counts each second, and what this process does as it does it, without outputs", async () => {
    const { hf, send, token } = await adminScene(store());
    const told = await view(send, await token("viewer"));
    await until("the first counts", () => told.some(({ event }) => event === "stats"));
    const { id } = await hf.enqueue(mail, { to: "ada" });
    await hf.drain();
    await until("the job to be told of", () =>
      told.some(({ event, data }) => event === "completed" && data["id"] === id),
    );
    expect(told.find(({ event }) => event === "completed")?.data).not.toHaveProperty("output");
    await until("its count", () =>
      told.some(({ event, data }) => event === "stats" && (data["states"] as { completed: number }).completed === 1),
    );
  });

  it("cost the store the same however many look", async () => {
    const { hf, send, token } = await adminScene(store());
    const { store: asked } = (await import("#src/engine/holdfast.js")).Holdfast.coreOf(hf);
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
    const viewers = await Promise.all(Array.from({ length: 20 }, () => view(send, viewer)));
    const counted = (told: Told[]): number => told.filter(({ event }) => event === "stats").length;
    await until("all to be told twice", () => viewers.every((told) => counted(told) >= 2));
    const ticks = Math.max(...viewers.map(counted));
    expect(calls.length).toBeLessThanOrEqual(4 * (ticks + 1));
    for (const [name, , page] of calls) if (name === "list") expect(page).toMatchObject({ payloads: false });
  });

  it("tell what others do at the far end of a backlog", async () => {
    const { hf, send, token } = await adminScene(store());
    const { id } = await hf.enqueue(mail, { to: "first" });
    await hf.enqueueMany(
      mail,
      Array.from({ length: 150 }, (_, nth) => ({ to: `${nth}` })),
    );
    const told = await view(send, await token("viewer"));
    await until("a look", () => told.filter(({ event }) => event === "stats").length > 1);
    // Straight on the store: no event of this process tells of it.
    const { store: shared } = (await import("#src/engine/holdfast.js")).Holdfast.coreOf(hf);
    await shared.cancel([id]);
    await until("its end to be seen", () =>
      told.some(({ event, data }) => event === "job" && data["id"] === id && data["state"] === "cancelled"),
    );
  });
});

describe.each(STORES)("slow viewers on %s", (_name, store) => {
  it("are let go when a megabyte waits for them, and the others are told everything", async () => {
    const { hf, send, token, url } = await adminScene(store());
    const { events } = (await import("#src/engine/holdfast.js")).Holdfast.coreOf(hf);
    const viewer = await token("viewer");
    const told = await view(send, viewer);
    // It is sent the headers, and reads nothing after them.
    const slow = await new Promise<IncomingMessage>((resolve, reject) => {
      const headers = { authorization: `Bearer ${viewer}` };
      get(`${url}/api/admin/events`, { headers }, resolve).on("error", reject);
    });
    onTestFinished(() => void slow.destroy());
    const queue = "x".repeat(100_000);
    const paused = (): number => told.filter(({ event }) => event === "paused").length;
    // Far more than the sockets between them take.
    const most = 300;
    for (let nth = 1; nth <= most; nth++) {
      events.emit("paused", { queue });
      await until("it to be read by the other", () => paused() === nth);
    }
    let bytes = 0;
    slow.on("data", (chunk: Buffer) => (bytes += chunk.length));
    // So that an EventSource comes again by itself.
    await once(slow, "end");
    expect(bytes).toBeGreaterThan(100_000);
    expect(bytes).toBeLessThan(most * 100_000 * 0.75);
    expect(paused()).toBe(most);
  });
});

it("what waits for a viewer is bounded in bytes; a message longer than that is sent all the same", async () => {
  let left = 0;
  const viewer = newViewer(() => void left++);
  const [small, large] = [new Uint8Array(600_000), new Uint8Array(3_000_000)];
  viewer.send(large);
  viewer.send(large);
  expect(left).toBe(0);
  const reader = viewer.body.getReader();
  expect((await reader.read()).value).toBe(large);
  expect((await reader.read()).value).toBe(large);
  // One is on its way, one waits, and there is no room for a third.
  viewer.send(small);
  viewer.send(small);
  expect(left).toBe(0);
  viewer.send(small);
  expect(left).toBe(1);
  expect((await reader.read()).value).toBe(small);
  expect((await reader.read()).done).toBe(true);
  viewer.send(small);
  viewer.end();
  expect(left).toBe(1);
});

it("a HEAD, whose answer nobody reads, is no viewer", async () => {
  const { send, token } = await adminScene("sqlite::memory:");
  const viewer = await token("viewer");
  for (let nth = 0; nth < 210; nth++)
    expect((await send("/api/admin/events", { method: "HEAD", token: viewer })).status).toBe(200);
  const told = await view(send, viewer);
  await until("the counts", () => told.some(({ event }) => event === "stats"));
});

it("what another process does is seen in the store within a second or two", async () => {
  const file = `sqlite:${(await import("node:os")).tmpdir()}/holdfast-events-${process.pid}-${Date.now()}.db`;
  const { send, token } = await adminScene(file);
  const other = await holdfast({ store: file, jobs: [mail], logger: false });
  onTestFinished(() => other.close());
  await other.enqueue(mail, { to: "first" });
  const told = await view(send, await token("viewer"));
  await until("the first look", () => told.some(({ event }) => event === "stats"));
  const { id } = await other.enqueue(mail, { to: "ada" });
  await until("the job to be seen", () =>
    told.some(({ event, data }) => event === "job" && data["id"] === id && data["state"] === "pending"),
  );
  await other.drain();
  await until("its end to be seen", () =>
    told.some(({ event, data }) => event === "job" && data["id"] === id && data["state"] === "completed"),
  );
});
