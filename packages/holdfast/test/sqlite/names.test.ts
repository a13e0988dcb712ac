import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { connect, integrity, open, tempFile } from "./scene.js";

/** Names that would do harm, or match too much, as part of a statement. */
const NAMES = [
  `'; DROP TABLE holdfast_jobs; --`,
  `" OR "1"="1`,
  `' OR 1=1 --`,
  "%",
  "_",
  "100%_sure\\",
  "[a-z]*",
  "?1 @now :x $y",
  "a,b;c",
  "`back` 'single' \"double\"",
  "Größe 🚀👩‍🚀 日本語",
  "NULL",
  "0",
  "é", // composed
  "e\u0301", // looks the same, decomposed
  "A",
  "a",
];

describe("names from users reach SQL only as bound values", () => {
  it("types, queues, users, tags and keys are stored and matched exactly", async () => {
    const file = tempFile();
    const jobs = NAMES.map((type) => job({ type, run: () => type }));
    const hf = await open(file, { jobs });
    const ids = new Map<string, string>();
    for (const type of jobs) {
      const name = type.type;
      const { id } = await hf.enqueue(type, {}, { queue: name, user: name, tags: [name], unique: name });
      expect(await hf.enqueue(type, {}, { queue: name, user: name, unique: name })).toMatchObject({
        id,
        duplicate: true,
      });
      ids.set(name, id);
    }
    for (const [name, id] of ids) {
      expect(await hf.get(id)).toMatchObject({ type: name, queue: name, user: name, tags: [name], key: name });
      for (const filter of [{ type: name }, { queue: name }, { user: name }, { tag: name }]) {
        const found = (await hf.list(filter)).jobs.map((stored) => stored.id);
        expect({ ...filter, found }).toEqual({ ...filter, found: [id] });
      }
      expect((await hf.forUser(name).list()).jobs.map((stored) => stored.id)).toEqual([id]);
      await hf.pause(name);
      expect(await hf.drain({ queues: [name] })).toBe(0);
      await hf.resume(name);
    }
    for (const name of NAMES) {
      const [lease, ...others] = await hf.claim({ queues: [name], types: [name], limit: 10 });
      expect(others).toEqual([]);
      expect(lease?.id).toBe(ids.get(name));
      await lease?.complete(name);
    }
    const { types, queues } = await hf.stats();
    expect(Object.keys(types).toSorted()).toEqual(NAMES.toSorted());
    expect(Object.keys(queues).toSorted()).toEqual(NAMES.toSorted());
    expect(await hf.remove({ tag: "%" })).toBe(1);
    expect((await hf.list({ limit: 1_000 })).jobs).toHaveLength(NAMES.length - 1);
    expect(integrity(file)).toBe("ok");
  });

  it("names of the maximum length are stored in full", async () => {
    const hf = await open(tempFile());
    const long = (length: number): string => "🦀'%".repeat(length).slice(0, length).toWellFormed();
    const type = job({ type: long(200), run() {} });
    const options = { queue: long(100), user: long(200), tags: [long(100)], unique: long(500) };
    const { id } = await hf.enqueue(type, {}, options);
    expect(await hf.get(id)).toMatchObject({
      type: long(200),
      queue: long(100),
      user: long(200),
      tags: [long(100)],
      key: long(500),
    });
    expect((await hf.list({ type, queue: long(100), user: long(200), tag: long(100) })).jobs).toHaveLength(1);
  });

  it("strings of handlers are stored, without NUL outside outputs", async () => {
    const file = tempFile();
    const nasty = `'); DELETE FROM holdfast_jobs; -- % 🚀 \u0000 "`;
    const type = job({
      type: "nasty",
      retry: { maxAttempts: 2, backoff: { base: 0 } },
      run({ job: { attempt }, log, progress }) {
        log(nasty);
        progress(0.5, nasty);
        if (attempt === 1) throw Object.assign(new Error(nasty), { code: nasty });
        return { [nasty]: nasty };
      },
    });
    const hf = await open(file, { jobs: [type] });
    const { id } = await hf.enqueue(type);
    expect(await hf.drain()).toBe(2);
    const stored = await hf.get(id);
    expect(stored?.output).toEqual({ [nasty]: nasty });
    const kept = nasty.replace("\0", "\u{fffd}");
    expect(stored?.attempts[0]?.error).toMatchObject({ message: kept, code: kept });
    expect(stored?.log.map(({ line }) => line)).toEqual([kept, kept]);
    expect(stored?.progress).toEqual({ fraction: 0.5, note: kept, data: null });
    expect(connect(file).prepare("SELECT count(*) FROM holdfast_jobs").pluck().get()).toBe(1);
  });
});
