import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import {
  DuplicateJobError,
  holdfast,
  InvalidInputError,
  InvalidOptionError,
  job,
  type EnqueueManyResult,
} from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { double, errorOf, expectRefusal, fileStore, jobCount, jobOf, open, untyped } from "./scene.js";

const inputs = (count: number): { n: number }[] => Array.from({ length: count }, (_, n) => ({ n }));

describe("enqueueMany returns one result per job", () => {
  it("in the order of the inputs, with job ids", async () => {
    const { hf } = await open();
    const results = await hf.enqueueMany(double, inputs(1_234));
    expect(results).toHaveLength(1_234);
    for (const n of [0, 499, 500, 1_233]) expect((await jobOf(hf, results[n]!.id!)).input).toEqual({ n });
    expect(new Set(results.map((result) => result.id)).size).toBe(1_234);
    expect(results.every((result) => result.error === null && !result.duplicate)).toBe(true);
  });

  it("an invalid input fails alone", async () => {
    const { hf } = await open();
    const mixed = [{ n: 1 }, { n: "two" }, { n: 3 }, { n: Number.NaN }, null, { n: 6 }] as { n: number }[];
    const results = await hf.enqueueMany(double, mixed);
    expect(results.map((result) => result.error?.code ?? "stored")).toEqual([
      "stored",
      "INVALID_INPUT",
      "stored",
      "INVALID_INPUT",
      "INVALID_INPUT",
      "stored",
    ]);
    expect(results[1]).toEqual({ id: null, error: expect.any(InvalidInputError) });
    expect(results[1]?.error?.message).toMatch(/^input of double: n: /);
    expect(await jobCount(hf)).toBe(3);
  });

  it("accepts an empty list", async () => {
    const { hf } = await open();
    expect(await hf.enqueueMany(double, [])).toEqual([]);
  });

  it("`each` overrides the common options per job", async () => {
    const { hf } = await open();
    const results = await hf.enqueueMany(double, inputs(3), {
      queue: "bulk",
      priority: 1,
      each: ({ n }, index) => ({ priority: index * 10, unique: `n:${n % 2}` }),
    });
    expect(results[2]).toMatchObject({ id: results[0]?.id, duplicate: true });
    const { jobs } = await hf.list({ queue: "bulk" });
    expect(jobs.map((stored) => [stored.priority, stored.key])).toEqual([
      [10, "n:1"],
      [0, "n:0"],
    ]);
  });

  it("an invalid option or a held key fails alone", async () => {
    const { hf } = await open();
    const unique = { key: "one", onConflict: "reject" } as const;
    const results = await hf.enqueueMany(double, inputs(4), {
      each: ({ n }) => (n === 1 ? { delay: "soon" } : n === 3 ? { tx: {} } : { unique }),
    });
    const errors = results.map((result) => result.error);
    expect(errors).toEqual([
      null,
      expect.any(InvalidOptionError),
      expect.any(DuplicateJobError),
      expect.any(InvalidOptionError),
    ]);
    expect(await jobCount(hf)).toBe(1);
  });

  it.each<[string, object, string]>([
    ["a bad option", { priority: 1_000 }, "priority"],
    ["a misspelt option", { eech: () => ({}) }, "eech"],
    ["one id for all", { id: "018f4d2e-7b3a-7c11-8a55-0123456789ab" }, "id"],
  ])("refuses %s for all jobs", async (_name, options, field) => {
    const { hf } = await open();
    const refused = untyped(hf).enqueueMany(double, inputs(3), options);
    await expectRefusal(refused, { is: InvalidOptionError, code: "INVALID_OPTION", field });
    expect(await jobCount(hf)).toBe(0);
  });

  it.each([undefined, null, 5, { n: 1 }])("refuses %j instead of an iterable", async (given) => {
    const { hf } = await open();
    const refused = untyped(hf).enqueueMany(double, given);
    await expectRefusal(refused, {
      is: InvalidOptionError,
      code: "INVALID_OPTION",
      field: "inputs",
      says: /array or another iterable/,
    });
  });
});

describe("streams", () => {
  it("accepts generators, sets and async iterables", async () => {
    const { hf } = await open();
    function* counting(): Generator<{ n: number }> {
      yield* inputs(3);
    }
    async function* slowly(): AsyncGenerator<{ n: number }> {
      for (const input of inputs(3)) yield await Promise.resolve(input);
    }
    for (const source of [counting(), new Set(inputs(3)), slowly()]) {
      expect(await hf.enqueueMany(double, source)).toHaveLength(3);
    }
    expect(await jobCount(hf)).toBe(9);
  });

  it("with onResult no results are collected", async () => {
    const { hf } = await open();
    const seen: [number, string | null][] = [];
    const results = await hf.enqueueMany(double, inputs(3), { onResult: (result, n) => seen.push([n, result.id]) });
    expect(results).toEqual([]);
    expect(seen.map(([n]) => n)).toEqual([0, 1, 2]);
    for (const [n, id] of seen) expect((await jobOf(hf, id!)).input).toEqual({ n });
  });

  it("an error of the stream reaches the caller; earlier jobs are stored", async () => {
    const { hf } = await open();
    const broken = new Error("the file ended early");
    async function* breaking(): AsyncGenerator<{ n: number }> {
      for (const input of inputs(1_700)) yield await Promise.resolve(input);
      throw broken;
    }
    const results: EnqueueManyResult[] = [];
    expect(await errorOf(hf.enqueueMany(double, breaking(), { onResult: (result) => results.push(result) }))).toBe(
      broken,
    );
    expect(results.length).toBeGreaterThanOrEqual(1_000);
    expect(await jobCount(hf)).toBe(results.length);
    expect(await hf.get(results.at(-1)!.id!)).not.toBeNull();
  });

  it("no write is in flight after a stream has failed", async () => {
    const hf = await holdfast({ store: await fileStore() });
    function* breaking(): Generator<{ n: number }> {
      yield* inputs(500);
      throw new Error("broken");
    }
    let reported = 0;
    await expect(hf.enqueueMany(double, breaking(), { onResult: () => reported++ })).rejects.toThrow("broken");
    expect(reported).toBe(500);
    expect(await jobCount(hf)).toBe(500);
    await hf.close();
  });

  it("an `each` that throws closes the stream", async () => {
    const { hf } = await open();
    let closed = false;
    function* watched(): Generator<{ n: number }> {
      try {
        yield* inputs(10);
      } finally {
        closed = true;
      }
    }
    const each = ({ n }: { n: number }): object => {
      if (n === 5) throw new Error("no options for 5");
      return {};
    };
    await expect(hf.enqueueMany(double, watched(), { each })).rejects.toThrow("no options for 5");
    expect(closed).toBe(true);
  });

  it("stores large inputs in several writes", async () => {
    const { hf } = await open();
    const large = job({ type: "large", input: z.string(), run: () => {} });
    const results = await hf.enqueueMany(
      large,
      Array.from({ length: 12 }, (_, n) => `${n}`.repeat(120_000)),
    );
    expect(results.every((result) => result.error === null)).toBe(true);
    expect((await jobOf(hf, results[11]!.id!)).input).toBe("11".repeat(120_000));
  });

  it("120,000 jobs from a stream fit into 64 MB of memory", async () => {
    const store = await fileStore();
    const script = fileURLToPath(new URL("stream.mjs", import.meta.url));
    const args = ["--max-old-space-size=64", script, store, "120000"];
    const { stdout } = await promisify(execFile)(process.execPath, args);
    expect(JSON.parse(stdout)).toEqual({ reported: 120_000, inOrder: true, gathered: 0, pending: 120_000 });
    const hf = await holdfast({ store });
    expect((await hf.stats()).types).toMatchObject({ line: { pending: 120_000 } });
    await hf.close();
  }, 120_000);
});
