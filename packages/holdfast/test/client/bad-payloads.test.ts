import { InvalidInputError, job, PayloadTooLargeError } from "holdfast";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { errorOf, expectRefusal, jobCount, open, untyped } from "./scene.js";

const anything = job({ type: "anything", input: z.any(), run: () => {} });
const order = job({
  type: "order",
  input: z.object({ id: z.string(), items: z.array(z.object({ sku: z.string(), count: z.number().int().min(1) })) }),
  run: () => {},
});

describe("a payload that does not match its schema", () => {
  it("D-07 is refused, and every wrong field is named", async () => {
    const { hf } = await open({ jobs: [order] });
    const bad = {
      id: 7,
      items: [
        { sku: "a", count: 1 },
        { sku: "b", count: 0 },
      ],
    };
    const error = await errorOf(untyped(hf).enqueue(order, bad));
    expect(error).toBeInstanceOf(InvalidInputError);
    expect(error).toMatchObject({ code: "INVALID_INPUT", type: "order" });
    expect((error as InvalidInputError).issues.map((issue) => issue.path)).toEqual(["id", "items.1.count"]);
    expect((error as InvalidInputError).message).toMatch(/^input of order: id: .*string.*; items\.1\.count: .*1/);
    expect(await jobCount(hf)).toBe(0);
  });

  it.each<[string, unknown]>([
    ["nothing", undefined],
    ["null", null],
    ["a string", "order"],
    ["a list", []],
  ])("%s in place of an object is refused", async (_name, input) => {
    const { hf } = await open();
    await expectRefusal(untyped(hf).enqueue(order, input), { is: InvalidInputError, code: "INVALID_INPUT" });
    expect(await jobCount(hf)).toBe(0);
  });

  it("is refused by valibot, and the field is named", async () => {
    const { hf } = await open();
    const mail = job({ type: "mail", input: v.object({ to: v.object({ name: v.string() }) }), run: () => {} });
    const error = await errorOf(untyped(hf).enqueue(mail, { to: { name: 5 } }));
    expect((error as InvalidInputError).issues[0]?.path).toBe("to.name");
  });

  it("is refused by an asynchronous schema too", async () => {
    const { hf } = await open();
    const free = z.string().refine(async (name) => Promise.resolve(name !== "taken"), "is taken");
    const signUp = job({ type: "signUp", input: z.object({ name: free }), run: () => {} });
    const refused = hf.enqueue(signUp, { name: "taken" });
    await expectRefusal(refused, { is: InvalidInputError, code: "INVALID_INPUT", says: /name is taken/ });
    await hf.enqueue(signUp, { name: "ada" });
    expect(await jobCount(hf)).toBe(1);
  });

  it("is checked as JSON: a Date does not match z.date()", async () => {
    const { hf } = await open();
    const remind = job({ type: "remind", input: z.object({ at: z.date() }), run: () => {} });
    const refused = hf.enqueue(remind, { at: new Date(0) });
    await expectRefusal(refused, { is: InvalidInputError, code: "INVALID_INPUT", says: /at: .*date/ });
  });

  it("reports at most a few of many issues", async () => {
    const { hf } = await open();
    const list = job({ type: "list", input: z.array(z.string()), run: () => {} });
    const error = await errorOf(
      untyped(hf).enqueue(
        list,
        Array.from({ length: 500 }, () => 1),
      ),
    );
    expect((error as InvalidInputError).issues).toHaveLength(20);
  });
});

describe("a payload over the size limit", () => {
  const limit = 256 * 1024;
  const text = (bytes: number, character = "x"): string => character.repeat(bytes / Buffer.byteLength(character));

  it("is refused from 256 KB of JSON on", async () => {
    const { hf } = await open();
    await hf.enqueue(anything, text(limit - 2));
    const error = await errorOf(hf.enqueue(anything, text(limit - 1)));
    expect(error).toBeInstanceOf(PayloadTooLargeError);
    expect(error).toMatchObject({ code: "PAYLOAD_TOO_LARGE", bytes: limit + 1, limit });
    expect((error as Error).message).toMatch(/input of anything is 262145 bytes.*limit is 262144.*reference/);
    expect(await jobCount(hf)).toBe(1);
  });

  it.each([
    ["two bytes", "é"],
    ["three bytes", "€"],
    ["four bytes", "😀"],
  ])("counts characters of %s in bytes", async (_name, character) => {
    const { hf } = await open();
    const size = Math.floor((limit - 2) / Buffer.byteLength(character)) * Buffer.byteLength(character);
    await hf.enqueue(anything, text(size, character));
    const more = text(size, character) + character;
    expect(more.length).toBeLessThan(limit);
    await expectRefusal(hf.enqueue(anything, more), { is: PayloadTooLargeError, code: "PAYLOAD_TOO_LARGE" });
    expect(await jobCount(hf)).toBe(1);
  });
});

describe("a payload that JSON cannot carry", () => {
  const cycle: Record<string, unknown> = {};
  cycle["again"] = { cycle };

  it.each<[string, unknown, string]>([
    ["a BigInt", { amount: 10n }, "amount"],
    ["a NUL", { list: ["fine", "x\0y"] }, "list.1"],
    ["a NUL in a key", { deep: { "a\0": 1 } }, "deep.a\0"],
    ["a NUL behind a backslash", { path: "C:\\\0" }, "path"],
    ["a cycle", cycle, "again.cycle"],
    ["undefined in a list", { list: [undefined] }, "list.0"],
    ["NaN", { n: Number.NaN }, "n"],
    ["Infinity", { n: Number.POSITIVE_INFINITY }, "n"],
    ["a function", { f: () => 1 }, "f"],
    ["a symbol", { s: Symbol("s") }, "s"],
    ["a Map", { m: new Map([[1, 2]]) }, "m"],
    ["a Set", { s: new Set([1]) }, "s"],
    ["a lone surrogate", { t: "\ud83d" }, "t"],
    ["an invalid date", { at: new Date("x") }, "at"],
    ["a __proto__ key", JSON.parse('{"__proto__":{"admin":true}}'), "__proto__"],
    ["a nested __proto__ key", JSON.parse('{"a":{"b":[{"__proto__":{"admin":true}}]}}'), "a.b.0.__proto__"],
  ])("%s is refused with its path", async (_name, input, path) => {
    const { hf } = await open();
    const error = await errorOf(hf.enqueue(anything, input));
    expect(error).toBeInstanceOf(InvalidInputError);
    expect(error).toMatchObject({ code: "INVALID_INPUT", type: "anything", issues: [{ path }] });
    expect((error as Error).message).toContain(`input of anything: ${path}`);
    expect(await jobCount(hf)).toBe(0);
    expect(({} as { admin?: unknown }).admin).toBeUndefined();
  });

  it("null is stored if the schema accepts it", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(anything, null);
    expect((await hf.get(id))?.input).toBeNull();
  });
});
