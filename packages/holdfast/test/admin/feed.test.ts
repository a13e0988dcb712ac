import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { EventBuffer } from "#src/admin/events/event-buffer.js";
import { Feed } from "#src/admin/events/feed.js";
import { Emitter, type EventName } from "#src/engine/events/events.js";
import type { Holdfast } from "#src/engine/client/holdfast.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A feed on a client that counts what it is asked. */
function scene(viewersPerCaller = 200) {
  const emitter = new Emitter(() => {});
  const asked = { stats: 0, lists: 0 };
  const hf = {
    on: (name: EventName, listener: () => void) => emitter.on(name, listener),
    async stats() {
      asked.stats++;
      return {
        states: {},
        queues: {},
        types: {},
        counts: [],
        oldestDueMs: null,
        lastMinute: {},
        completedPerSecond: 0,
      };
    },
    async list() {
      asked.lists++;
      return { jobs: [], cursor: null };
    },
  } as unknown as Holdfast;
  const feed = new Feed(hf, { viewersPerCaller });
  return { feed, emitter, asked };
}

/** Reads on and on; `texts` has an entry for each write that a server would do. */
function reading(body: ReadableStream<Uint8Array>) {
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

const count = (text: string, part: string): number => text.split(part).length - 1;

it("events are serialised once and written together", async () => {
  const { feed, emitter } = scene();
  const viewers = Array.from({ length: 200 }, () => reading(feed.open("ada")));
  await vi.advanceTimersByTimeAsync(500);
  const before = viewers.map(({ texts }) => texts.length);
  let serialised = 0;
  const queue = { toJSON: () => `q${serialised++}` } as unknown as string;
  for (let nth = 0; nth < 400; nth++) emitter.emit("paused", { queue });
  await vi.advanceTimersByTimeAsync(300);
  expect(serialised).toBe(400);
  for (const [index, { texts }] of viewers.entries()) {
    expect(texts.length - (before[index] ?? 0)).toBe(1);
    expect(count(texts.at(-1) ?? "", "event: paused")).toBe(400);
  }
  feed.close();
  await Promise.all(viewers.map(({ end }) => end));
});

it("of a busy second 500 events are sent", async () => {
  const { feed, emitter } = scene();
  const { texts } = reading(feed.open("ada"));
  await vi.advanceTimersByTimeAsync(500);
  let serialised = 0;
  const queue = { toJSON: () => `q${serialised++}` } as unknown as string;
  for (let nth = 0; nth < 10_000; nth++) emitter.emit("paused", { queue });
  await vi.advanceTimersByTimeAsync(300);
  expect(serialised).toBe(500);
  expect(count(texts.join(""), "event: paused")).toBe(500);
  feed.close();
});

it("nothing is done while no viewer reads", async () => {
  const { feed, emitter, asked } = scene();
  const readers = Array.from({ length: 200 }, () => feed.open("ada").getReader());
  for (const reader of readers) expect((await reader.read()).value).toBeDefined();
  await vi.advanceTimersByTimeAsync(3_000);
  const before = { ...asked };
  expect(emitter.hasListeners("paused")).toBe(false);
  let serialised = 0;
  emitter.emit("paused", { queue: { toJSON: () => `q${serialised++}` } as unknown as string });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked).toEqual(before);
  expect(serialised).toBe(0);
  // One goes on: it hears that it missed something, and then the counts of now.
  const text = async (): Promise<string> => Buffer.from((await readers[0]?.read())?.value ?? []).toString();
  let heard = "";
  const more = (async () => {
    while (!heard.includes("event: stats\n", heard.indexOf("event: missed\n"))) heard += await text();
  })();
  await vi.advanceTimersByTimeAsync(1_500);
  await more;
  expect(heard).toContain("event: missed\ndata: {}\n\n");
  expect(asked.stats).toBeGreaterThan(before.stats);
  feed.close();
});

it("a feed without viewers rests, and one that begins again misses nothing", async () => {
  const { feed, emitter, asked } = scene();
  const first = reading(feed.open("ada"));
  await vi.advanceTimersByTimeAsync(1_500);
  await first.cancel();
  const { stats } = asked;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked.stats).toBe(stats);
  const second = reading(feed.open("ada"));
  await vi.advanceTimersByTimeAsync(500);
  emitter.emit("paused", { queue: "q" });
  await vi.advanceTimersByTimeAsync(500);
  expect(second.texts.join("")).toContain('event: paused\ndata: {"queue":"q"}\n\n');
  expect(second.texts.join("")).not.toContain("missed");
  feed.close();
});

it("a stream ends after five minutes", async () => {
  const { feed } = scene(1);
  const { end } = reading(feed.open("ada"));
  expect(() => feed.open("ada")).toThrow(expect.objectContaining({ status: 429, code: "TOO_MANY_STREAMS" }));
  await vi.advanceTimersByTimeAsync(300_000);
  await end;
  feed.open("ada");
  feed.close();
});

it("200 viewers are all there may be", () => {
  const { feed } = scene(200);
  for (let nth = 0; nth < 200; nth++) feed.open(`caller ${nth}`);
  expect(() => feed.open("one more")).toThrow(expect.objectContaining({ status: 429, code: "TOO_MANY_STREAMS" }));
  feed.close();
  feed.open("one more");
  feed.close();
});

it("what is kept is bounded in bytes, and so is a read", () => {
  const buffer = new EventBuffer();
  const message = (nth: number, length: number): Uint8Array => new Uint8Array(length).fill(nth);
  const large = message(1, 3_000_000);
  buffer.push(large);
  // Longer than what is kept and read at once, and sent all the same.
  expect(buffer.read(0)?.bytes).toBe(large);
  expect(buffer.read(1)).toBe(null);
  for (let nth = 0; nth < 300; nth++) buffer.push(message(nth % 250, 10_000));
  const { bytes, next, missed } = buffer.read(1) ?? {};
  expect(missed).toBe(true);
  expect(bytes?.byteLength).toBe(60_000);
  expect(301 - (next ?? 0)).toBeLessThan(105);
  const last = buffer.end - 1;
  // A viewer that keeps up gets the message itself, and no copy of its own.
  expect(buffer.read(last)?.bytes).toBe(buffer.read(last)?.bytes);
});
