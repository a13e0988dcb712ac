import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { EventBuffer } from "#src/admin/events/event-buffer.js";
import { Feed } from "#src/admin/events/feed.js";
import { Emitter, type EventName } from "#src/engine/events/events.js";
import type { Holdfast } from "#src/engine/client/holdfast.js";
import type { Job } from "#src/job/job.js";
import { redactor, type Redactor } from "#src/redact.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A feed on a client that counts its calls. `change` is a transition of another process. */
function scene(streamsPerCaller = 200, redact: Redactor = (value) => value, isMetered = false) {
  const emitter = new Emitter(() => {});
  const calls = { stats: 0, lists: 0, paused: 0, running: 0, byId: 0 };
  const jobs: Job[] = [];
  let change = (_id: string): void => {};
  const hf = {
    on: (name: EventName, listener: () => void) => emitter.on(name, listener),
    async stats() {
      calls.stats++;
      return {
        states: { running: 200 },
        queues: {},
        types: {},
        counts: [],
        oldestDueMs: null,
        oldestDue: [],
        lastMinute: {},
        completedPerSecond: 0,
      };
    },
    async isPaused() {
      calls.paused++;
      return false;
    },
    async list({ state, id }: { state?: string; id?: string[] }) {
      calls.lists++;
      if (state === "running") calls.running++;
      if (id !== undefined) calls.byId++;
      return { jobs: jobs.filter((job) => id?.includes(job.id) ?? true), cursor: null };
    },
  } as unknown as Holdfast;
  async function* followJobs(): AsyncGenerator<{ id: string }> {
    for (;;) yield { id: await new Promise<string>((resolve) => (change = resolve)) };
  }
  const feed = new Feed(hf, { streamsPerCaller, redact, followJobs, isMetered });
  return { feed, emitter, calls, jobs, change: (id: string) => change(id) };
}

/** Reads until the end; `texts` has an entry for each write of a server. */
function readAll(body: ReadableStream<Uint8Array>) {
  const texts: string[] = [];
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const read = async (): Promise<void> => {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      texts.push(value);
    }
  };
  return { texts, end: read(), cancel: () => reader.cancel() };
}

const AT = new Date(0);
/** A running job, as a list returns it. */
function runningJob(id: string, fraction: number): Job {
  const times = { runAt: AT, dueAt: AT, createdAt: AT, updatedAt: AT, claimedAt: AT, startedAt: AT };
  const without = { expiresAt: null, finishedAt: null, cancelRequestedAt: null, schedule: null, error: null };
  const progress = { fraction, note: null, data: null };
  return { id, type: "export", state: "running", attempt: 1, ...times, ...without, progress } as unknown as Job;
}

const count = (text: string, part: string): number => text.split(part).length - 1;

it("serializes events once and sends them in batches", async () => {
  const { feed, emitter } = scene();
  const viewers = Array.from({ length: 200 }, () => readAll(feed.open("ada")));
  await vi.advanceTimersByTimeAsync(500);
  const before = viewers.map(({ texts }) => texts.length);
  let serialized = 0;
  const queue = { toJSON: () => `q${serialized++}` } as unknown as string;
  for (let nth = 0; nth < 400; nth++) emitter.emit("paused", { queue });
  await vi.advanceTimersByTimeAsync(300);
  expect(serialized).toBe(400);
  for (const [index, { texts }] of viewers.entries()) {
    expect(texts.length - (before[index] ?? 0)).toBe(1);
    expect(count(texts.at(-1) ?? "", "event: paused")).toBe(400);
  }
  feed.close();
  await Promise.all(viewers.map(({ end }) => end));
});

it("redacts the data of progress events", async () => {
  const { feed, emitter } = scene(200, redactor(["progress.data.card"]));
  const { texts } = readAll(feed.open("ada"));
  await vi.advanceTimersByTimeAsync(500);
  const job = { id: "1", type: "pay", queue: "default", worker: "w", attempt: 1 };
  emitter.emit("progress", { ...job, fraction: 0.4, note: null, data: { page: 12, card: "4242" } });
  emitter.emit("progress", { ...job, fraction: 0.5, note: "half", data: null });
  emitter.emit("updated", { id: "1" });
  await vi.advanceTimersByTimeAsync(300);
  const sent = texts.join("");
  expect(sent).toContain('"data":{"page":12,"card":"[redacted]"}');
  expect(sent).toContain('"note":"half","data":null');
  expect(sent).toContain('event: updated\ndata: {"id":"1"}');
  feed.close();
});

it("sends at most 500 events per second", async () => {
  const { feed, emitter } = scene();
  const { texts } = readAll(feed.open("ada"));
  await vi.advanceTimersByTimeAsync(500);
  let serialized = 0;
  const queue = { toJSON: () => `q${serialized++}` } as unknown as string;
  for (let nth = 0; nth < 10_000; nth++) emitter.emit("paused", { queue });
  await vi.advanceTimersByTimeAsync(300);
  expect(serialized).toBe(500);
  expect(count(texts.join(""), "event: paused")).toBe(500);
  feed.close();
});

it("does nothing while no client reads", async () => {
  const { feed, emitter, calls } = scene();
  const readers = Array.from({ length: 200 }, () => feed.open("ada").getReader());
  for (const reader of readers) expect((await reader.read()).value).toBeDefined();
  await vi.advanceTimersByTimeAsync(3_000);
  const before = { ...calls };
  expect(emitter.hasListeners("paused")).toBe(false);
  let serialized = 0;
  emitter.emit("paused", { queue: { toJSON: () => `q${serialized++}` } as unknown as string });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(calls).toEqual(before);
  expect(serialized).toBe(0);
  // One client reads again: it receives "missed", and then the current counts.
  const text = async (): Promise<string> => Buffer.from((await readers[0]?.read())?.value ?? []).toString();
  let received = "";
  const more = (async () => {
    while (!received.includes("event: stats\n", received.indexOf("event: missed\n"))) received += await text();
  })();
  await vi.advanceTimersByTimeAsync(1_500);
  await more;
  expect(received).toContain("event: missed\ndata: {}\n\n");
  expect(calls.stats).toBeGreaterThan(before.stats);
  feed.close();
});

it("stops without clients and restarts without missed events", async () => {
  const { feed, emitter, calls } = scene();
  const first = readAll(feed.open("ada"));
  await vi.advanceTimersByTimeAsync(1_500);
  await first.cancel();
  const { stats } = calls;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(calls.stats).toBe(stats);
  const second = readAll(feed.open("ada"));
  await vi.advanceTimersByTimeAsync(500);
  emitter.emit("paused", { queue: "q" });
  await vi.advanceTimersByTimeAsync(500);
  expect(second.texts.join("")).toContain('event: paused\ndata: {"queue":"q"}\n\n');
  expect(second.texts.join("")).not.toContain("missed");
  feed.close();
});

const MINUTE_MS = 60_000;

it("costs an idle store less than a call a second", async () => {
  const { feed, calls, jobs } = scene();
  jobs.push(runningJob("1", 0));
  const { cancel } = readAll(feed.open("ada"));
  await vi.advanceTimersByTimeAsync(MINUTE_MS);
  const { stats, lists, paused } = calls;
  expect({ stats, lists, paused }).toEqual({ stats: 13, lists: 16, paused: 5 });
  await cancel();
});

it("reads the progress of jobs by id, and searches for them twice a minute", async () => {
  const { feed, calls, jobs, change } = scene();
  jobs.push(runningJob("1", 0));
  const { texts, cancel } = readAll(feed.open("ada"));
  await vi.advanceTimersByTimeAsync(500);
  jobs[0] = runningJob("1", 0.5);
  await vi.advanceTimersByTimeAsync(6_000);
  expect(count(texts.join(""), '"fraction":0.5')).toBe(1);
  // It started after the search.
  jobs.push(runningJob("2", 0));
  change("2");
  await vi.advanceTimersByTimeAsync(12_000);
  jobs[1] = runningJob("2", 0.7);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(count(texts.join(""), '"fraction":0.7')).toBe(1);
  expect(calls.running).toBe(1);
  await vi.advanceTimersByTimeAsync(5 * MINUTE_MS - 30_000);
  expect(calls.running).toBe(10);
  await cancel();
});

/** The calls of the store in a minute with changes. */
async function busyMinute({ feed, calls, change }: ReturnType<typeof scene>): Promise<typeof calls> {
  const { cancel } = readAll(feed.open("ada"));
  for (let nth = 0; nth < 600; nth++) {
    change(`job ${nth}`);
    await vi.advanceTimersByTimeAsync(MINUTE_MS / 600);
  }
  await cancel();
  return calls;
}

it("costs a busy store 1.4 calls a second", async () => {
  const { stats, lists, paused, running } = await busyMinute(scene());
  expect((stats + lists + paused) / 60).toBeLessThanOrEqual(1.4);
  expect(running).toBe(3);
});

it("costs a metered store a call in four seconds", async () => {
  const { stats, lists, paused, running } = await busyMinute(scene(200, (value) => value, true));
  expect({ stats, paused, running }).toEqual({ stats: 2, paused: 2, running: 0 });
  expect(lists).toBe(15);
});

it("sends the first change in the next tick", async () => {
  const { feed, calls, change } = scene();
  const { texts, cancel } = readAll(feed.open("ada"));
  await vi.advanceTimersByTimeAsync(12_500);
  const before = { ...calls };
  change("a job");
  await vi.advanceTimersByTimeAsync(1_000);
  expect(calls).toMatchObject({ stats: before.stats + 1, lists: before.lists + 1 });
  expect(count(texts.join(""), "event: stats")).toBe(calls.stats);
  await cancel();
});

it("reads at once whether queues are paused", async () => {
  const { feed, emitter, calls } = scene();
  const { cancel } = readAll(feed.open("ada"));
  await vi.advanceTimersByTimeAsync(12_500);
  const { paused } = calls;
  emitter.emit("paused", { queue: "*" });
  await vi.advanceTimersByTimeAsync(1_000);
  expect(calls.paused).toBe(paused + 1);
  await cancel();
});

it("sends the last counts to a new client at once", async () => {
  const { feed, calls } = scene();
  const first = readAll(feed.open("ada"));
  await vi.advanceTimersByTimeAsync(11_500);
  const { stats } = calls;
  const second = readAll(feed.open("ada"));
  await vi.advanceTimersByTimeAsync(0);
  expect(count(second.texts.join(""), "event: stats")).toBe(1);
  expect(calls.stats).toBe(stats);
  await Promise.all([first.cancel(), second.cancel()]);
});

it("ends a stream after five minutes", async () => {
  const { feed } = scene(1);
  const { end } = readAll(feed.open("ada"));
  expect(() => feed.open("ada")).toThrow(expect.objectContaining({ status: 429, code: "TOO_MANY_STREAMS" }));
  await vi.advanceTimersByTimeAsync(300_000);
  await end;
  feed.open("ada");
  feed.close();
});

it("ends streams within eleven seconds after their caller has lost access", async () => {
  const { feed, calls } = scene();
  let isAuthorized = true;
  const ada = [1, 2].map(() => readAll(feed.open("ada", { isAuthorized: async () => isAuthorized })));
  const failing = readAll(feed.open("bob", { isAuthorized: () => Promise.reject(new Error("the store is gone")) }));
  await vi.advanceTimersByTimeAsync(25_000);
  isAuthorized = false;
  const before = calls.stats;
  await vi.advanceTimersByTimeAsync(11_000);
  await Promise.all(ada.map(({ end }) => end));
  // Those of others go on.
  expect(calls.stats).toBeGreaterThan(before);
  await failing.cancel();
});

it("ends a stream with the session of its caller", async () => {
  const { feed } = scene();
  const { end } = readAll(feed.open("ada", { maxMs: 7_000 }));
  await vi.advanceTimersByTimeAsync(7_000);
  await end;
});

it("allows at most 200 streams", () => {
  const { feed } = scene(200);
  for (let nth = 0; nth < 200; nth++) feed.open(`caller ${nth}`);
  expect(() => feed.open("one more")).toThrow(expect.objectContaining({ status: 429, code: "TOO_MANY_STREAMS" }));
  feed.close();
  feed.open("one more");
  feed.close();
});

it("limits the bytes of the buffer and of a read", () => {
  const buffer = new EventBuffer();
  const message = (nth: number, length: number): Uint8Array => new Uint8Array(length).fill(nth);
  const large = message(1, 3_000_000);
  buffer.push(large);
  // Longer than both limits, but still sent.
  expect(buffer.read(0)?.bytes).toBe(large);
  expect(buffer.read(1)).toBe(null);
  for (let nth = 0; nth < 300; nth++) buffer.push(message(nth % 250, 10_000));
  const { bytes, next, missed } = buffer.read(1) ?? {};
  expect(missed).toBe(true);
  expect(bytes?.byteLength).toBe(60_000);
  expect(301 - (next ?? 0)).toBeLessThan(105);
  const last = buffer.end - 1;
  // Clients that keep up share the message without a copy.
  expect(buffer.read(last)?.bytes).toBe(buffer.read(last)?.bytes);
});
