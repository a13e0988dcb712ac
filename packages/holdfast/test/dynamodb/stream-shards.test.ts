import { describe, expect, it } from "vitest";
import type { StreamTransitions } from "#src/stores/dynamodb/transitions/stream/stream-transitions.js";
import { FakeStream } from "./fake-stream.js";

/** Shards that close, split and expire. DynamoDB Local has one shard for each table. */

/** Reads pages until one is empty. Null: the cursor has expired. */
async function read(
  process: StreamTransitions,
  from: string,
  limit = 100,
): Promise<{ ids: string[]; cursor: string } | null> {
  const ids: string[] = [];
  for (let cursor = from; ;) {
    const page = await process.page(cursor, limit);
    if (page === null) return null;
    expect(page.cursor.length).toBeLessThanOrEqual(1_000);
    ids.push(...page.transitions.map(({ id }) => id));
    cursor = page.cursor;
    if (page.transitions.length === 0) return { ids, cursor };
  }
}

/** A stream with one open shard, a process that reads it, and its first cursor. */
async function opened(): Promise<{ stream: FakeStream; process: StreamTransitions; first: string }> {
  const stream = new FakeStream();
  stream.open("a");
  stream.enqueue("a", "earlier");
  const process = stream.follow();
  return { stream, process, first: (await process.start()) ?? "" };
}

describe("a shard that closes", () => {
  it("is read to its end before its children", async () => {
    const { stream, process, first } = await opened();
    for (let nth = 1; nth <= 12; nth++) stream.enqueue("a", `a${nth}`);
    stream.close("a");
    stream.open("b", "a");
    stream.open("c", "a");
    for (const shard of ["b", "c"]) stream.enqueue(shard, `${shard}1`);
    const ids = (await read(process, first, 2))?.ids ?? [];
    expect(ids.slice(0, 12)).toEqual(Array.from({ length: 12 }, (_, nth) => `a${nth + 1}`));
    expect(ids.slice(12).toSorted()).toEqual(["b1", "c1"]);
    const gets = stream.requests.filter((request) => request.startsWith("GetRecords"));
    expect(gets.lastIndexOf("GetRecords a")).toBeLessThan(gets.indexOf("GetRecords b"));
  });

  it("is followed by children that are listed later", async () => {
    const { stream, process, first } = await opened();
    stream.enqueue("a", "a1");
    stream.close("a");
    const before = await read(process, first);
    expect(before?.ids).toEqual(["a1"]);
    stream.open("b", "a");
    stream.open("c", "a", false);
    for (const shard of ["b", "c"]) stream.enqueue(shard, `${shard}1`);
    const one = await read(process, before?.cursor ?? "");
    expect(one?.ids).toEqual(["b1"]);
    stream.list("c");
    // Shards are listed again at the latest when a follower is refreshed.
    await process.start();
    expect((await read(process, one?.cursor ?? ""))?.ids).toEqual(["c1"]);
  });

  it("is passed with all its generations by another process", async () => {
    const { stream, process, first } = await opened();
    stream.enqueue("a", "a1");
    const { cursor = "" } = (await read(process, first)) ?? {};
    for (const [parent, child] of [
      ["a", "b"],
      ["b", "c"],
      ["c", "d"],
    ] as const) {
      stream.close(parent);
      stream.open(child, parent);
      stream.enqueue(child, `${child}1`);
    }
    expect((await read(stream.follow(), cursor))?.ids).toEqual(["b1", "c1", "d1"]);
    expect((await read(process, cursor, 1))?.ids).toEqual(["b1", "c1", "d1"]);
  });

  it("between listing and reading loses nothing", async () => {
    const stream = new FakeStream();
    stream.open("a");
    stream.close("a");
    const process = stream.follow();
    const first = (await process.start()) ?? "";
    stream.open("b", "a");
    stream.enqueue("b", "b1");
    expect((await read(process, first))?.ids).toEqual(["b1"]);
  });

  it("without children ends a stream that is off", async () => {
    const { stream, process, first } = await opened();
    stream.enqueue("a", "a1");
    stream.close("a");
    stream.isEnabled = false;
    const page = await process.page(first, 10);
    expect(page?.transitions).toMatchObject([{ id: "a1" }]);
    expect(await process.page(page?.cursor ?? "", 10)).toBeNull();
    expect(await process.start()).toBeNull();
  });
});

describe("an iterator that expires", () => {
  it("is renewed after the last record", async () => {
    const { stream, process, first } = await opened();
    stream.enqueue("a", "a1");
    const before = await read(process, first);
    stream.expireIterators();
    stream.enqueue("a", "a2");
    expect((await read(process, before?.cursor ?? ""))?.ids).toEqual(["a2"]);
    expect(stream.requests).toContain("GetShardIterator a after");
  });

  it("before the first record misses nothing", async () => {
    const { stream, process, first } = await opened();
    stream.expireIterators();
    stream.enqueue("a", "a1");
    const found = await read(process, first);
    // The records of the last minute before it may be repeated.
    expect(found?.ids.slice(-1)).toEqual(["a1"]);
    expect(stream.requests).toContain("GetShardIterator a oldest");
  });
});

it("a refused iterator at the newest record is renewed", async () => {
  const stream = new FakeStream();
  stream.open("a");
  stream.refuseNewest();
  const process = stream.follow();
  const first = (await process.start()) ?? "";
  stream.enqueue("a", "a1");
  expect((await read(process, first))?.ids).toEqual(["a1"]);
});

describe("a cursor", () => {
  it("without a record skips old ones in another process", async () => {
    const stream = new FakeStream();
    stream.open("a");
    const now = stream.now;
    stream.now = now - 120_000;
    for (let nth = 0; nth < 50; nth++) stream.enqueue("a", `old ${nth}`);
    stream.now = now;
    const first = (await stream.follow().start()) ?? "";
    for (let nth = 0; nth < 7; nth++) stream.enqueue("a", `new ${nth}`);
    const found = await read(stream.follow(), first, 3);
    expect(found?.ids).toEqual(Array.from({ length: 7 }, (_, nth) => `new ${nth}`));
  });

  it("expires if its shard is not stored any more", async () => {
    const { stream, first } = await opened();
    stream.close("a");
    stream.open("b", "a");
    stream.forget("a");
    expect(await stream.follow().page(first, 10)).toBeNull();
  });

  it("expires if its record is not stored any more", async () => {
    const { stream, process, first } = await opened();
    stream.enqueue("a", "a1");
    const { cursor = "" } = (await read(process, first)) ?? {};
    stream.trim("a");
    expect(await stream.follow().page(cursor, 10)).toBeNull();
  });

  it("of 200 shards is stored in an item", async () => {
    const stream = new FakeStream();
    const shards = Array.from({ length: 200 }, (_, nth) => `shard ${nth}`);
    for (const shard of shards) stream.open(shard);
    const process = stream.follow();
    const first = (await process.start()) ?? "";
    for (const shard of shards) stream.enqueue(shard, `job in ${shard}`);
    const half = await process.page(first, 100);
    expect(half?.transitions).toHaveLength(100);
    expect(stream.items.size).toBe(2);
    const others = await read(stream.follow(), half?.cursor ?? "");
    const ids = [...(half?.transitions ?? []).map(({ id }) => id), ...(others?.ids ?? [])];
    expect(ids.toSorted()).toEqual(shards.map((shard) => `job in ${shard}`).toSorted());
    stream.items.clear();
    expect(await stream.follow().page(first, 10)).toBeNull();
  });

  it("of 30 shards needs no item", async () => {
    const stream = new FakeStream();
    for (let nth = 0; nth < 30; nth++) stream.open(`shard ${nth}`);
    const process = stream.follow();
    const first = (await process.start()) ?? "";
    for (let nth = 0; nth < 30; nth++) stream.enqueue(`shard ${nth}`, `job ${nth}`);
    expect((await read(process, first))?.ids).toHaveLength(30);
    expect(stream.items.size).toBe(0);
  });
});

it("a slow follower reads again what is not in memory", async () => {
  const { stream, process, first } = await opened();
  const ids = Array.from({ length: 6_000 }, (_, nth) => `job ${nth}`);
  for (const id of ids.slice(0, 10)) stream.enqueue("a", id);
  const slow = await process.page(first, 4);
  for (const id of ids.slice(10)) stream.enqueue("a", id);
  expect((await read(process, first, 1_000))?.ids).toEqual(ids);
  expect((await read(process, slow?.cursor ?? "", 1_000))?.ids).toEqual(ids.slice(4));
});
