import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { describeError, redactError } from "#src/job/error-record.js";
import { redactor } from "#src/redact.js";

const KEPT = { message: 4_000, stack: 8_000, causes: 3, dataBytes: 4_096 };

describe("a stored error", () => {
  it("has its message, code, stack, cause and own fields", () => {
    const cause = Object.assign(new TypeError("no route"), { code: "ENETUNREACH", errno: -101 });
    const error = Object.assign(new Error("the request failed", { cause }), { code: 503, status: { text: "busy" } });
    expect(describeError(error, KEPT)).toEqual({
      message: "the request failed",
      code: "503",
      stack: error.stack,
      data: { status: { text: "busy" } },
      cause: { message: "no route", code: "ENETUNREACH", stack: cause.stack, data: { errno: -101 } },
    });
  });

  it("may come from another realm", () => {
    const foreign: unknown = runInNewContext(
      `Object.assign(new RangeError("far away", { cause: new Error("why") }), { code: "E_FAR", at: new Date(0) })`,
    );
    expect(foreign).not.toBeInstanceOf(Error);
    const { stack, ...record } = describeError(foreign, KEPT);
    expect(record).toMatchObject({
      message: "far away",
      code: "E_FAR",
      cause: { message: "why" },
      data: { at: "1970-01-01T00:00:00.000Z" },
    });
    expect(stack).toMatch(/^RangeError: far away\n/);
  });

  it("may be an object that contains itself", () => {
    const thrown: Record<string, unknown> = { message: "round and round", code: 7, n: 1 };
    thrown["self"] = thrown;
    thrown["cause"] = thrown;
    const { message, code, data, cause } = describeError(thrown, KEPT);
    expect([message, code]).toEqual(["round and round", "7"]);
    expect(data).toMatchObject({ n: 1, self: { n: 1, message: "round and round" } });
    expect(cause?.cause?.cause?.message).toBe("round and round");
    expect(cause?.cause?.cause?.cause).toBeUndefined();
  });

  it("has only fields that JSON can represent", () => {
    const error = Object.assign(new Error("odd"), {
      big: 10n,
      none: undefined,
      nan: Number.NaN,
      list: [1, undefined, "two", () => {}],
      map: new Map([[1, 2]]),
      socket: new (class Socket {
        secret = "not plain";
      })(),
      method: () => {},
      inner: new Error("inside"),
      half: "\ud83d",
      ["__proto__"]: { polluted: true },
    });
    expect(describeError(error, KEPT).data).toEqual({
      big: "10",
      list: [1, "two"],
      inner: { message: "inside", code: null },
      half: "\ufffd",
    });
  });

  it("has the errors of an AggregateError", () => {
    const refused = Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
    expect(describeError(new AggregateError([refused, "other"], "all failed"), KEPT).data).toEqual({
      errors: [{ message: "refused", code: "ECONNREFUSED" }, "other"],
    });
  });

  it("hides fields with names of secrets", () => {
    const error = Object.assign(new Error("401"), {
      config: { headers: { Authorization: "Bearer x", "x-api-key": "y" }, auth: { password: "z" }, url: "/a" },
      accessToken: "t",
    });
    expect(describeError(error, KEPT).data).toEqual({
      config: {
        headers: { Authorization: "[redacted]", "x-api-key": "[redacted]" },
        auth: { password: "[redacted]" },
        url: "/a",
      },
      accessToken: "[redacted]",
    });
  });

  it("stays within its limits", () => {
    const wide = Object.fromEntries(Array.from({ length: 100_000 }, (_, n) => [`k${n}`, "x".repeat(5_000)]));
    const deep = { a: { b: { c: { d: { e: 1 } } } } };
    const cause = Object.assign(new Error("y".repeat(50_000)), wide);
    const error = Object.assign(new Error("x".repeat(50_000), { cause }), {
      small: 1,
      wide,
      deep,
      list: Array(1e6).fill(1),
    });
    const record = describeError(error, KEPT);
    expect(record.data).toEqual({ small: 1, deep: { a: { b: {} } }, list: Array(49).fill(1) });
    expect(record.message).toHaveLength(4_000);
    expect(JSON.stringify(record).length).toBeLessThan(30_000);
  });

  it.each<[string, () => unknown]>([
    ["a proxy whose traps throw", () => new Proxy({}, { get: raise, ownKeys: raise, getPrototypeOf: raise })],
    ["an error with a proxy inside", () => Object.assign(new Error("no"), { odd: revoked() })],
    [
      "an error with a getter that throws",
      () => Object.defineProperty(new Error("no"), "odd", { get: raise, enumerable: true }),
    ],
    ["a proxy that was revoked", revoked],
    [
      "an error with an array whose traps throw",
      () => Object.assign(new Error("no"), { odd: new Proxy([1], { get: raise }) }),
    ],
    ["an error whose cause is hostile", () => new Error("no", { cause: revoked() })],
  ])("is created from %s without throwing", (_, make) => {
    expect(() => JSON.stringify(describeError(make(), KEPT))).not.toThrow();
  });

  it("is redacted by error.data paths, including causes", () => {
    const cause = Object.assign(new Error("inner"), { card: "4242" });
    const error = Object.assign(new Error("outer", { cause }), { card: "4242", brand: "visa" });
    const record = redactError(redactor(["error.data.card"]), describeError(error, KEPT));
    expect([record.message, record.data, record.cause?.data]).toEqual([
      "outer",
      { card: "[redacted]", brand: "visa" },
      { card: "[redacted]" },
    ]);
    for (const path of ["error", "error.data", "**"]) {
      const hidden = redactError(redactor([path]), describeError(error, KEPT));
      expect([hidden.message, hidden.data, hidden.cause?.data]).toEqual(["outer", undefined, undefined]);
    }
  });
});

function raise(): never {
  throw new Error("in a trap");
}

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}
