import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FINGERPRINT_PATTERN, fingerprintOf, normalizeMessage, STALE_FINGERPRINT } from "#src/job/fingerprint.js";

const MAX_MESSAGE = 500;
const MAX_NAME = 100;
const MAX_FRAME = 200;

/** An error with this message and stack frames, as V8 writes them. */
function thrown(message: string, frames: readonly string[] = ["send (/srv/app/dist/mail.js:10:5)"]): Error {
  const error = new Error(message);
  error.stack = [`Error: ${message}`, ...frames.map((frame) => `    at ${frame}`)].join("\n");
  return error;
}

function idOf(message: string, frames?: readonly string[]): string {
  return fingerprintOf("mail", thrown(message, frames)).id;
}

describe("a normalised message", () => {
  it.each([
    ["order 17 of 2,300 failed after 5ms (-3.5%)", "order <number> of <number> failed after <number>ms (<number>%)"],
    ["job 018f4d2e-7b3a-7c11-8a55-0123456789ab is gone", "job <id> is gone"],
    ["no such customer: cus_9sK3Ab", "no such customer: <id>"],
    ["commit 4f2a9c1 not found", "commit <id> not found"],
    [`column "name" of 'users' and \`x\` and “y”`, "column <text> of <text> and <text> and <text>"],
    ["can't read the user's file 'a.txt'", "can't read the user's file <text>"],
    ["open /var/lib/app/a.db failed", "open <path> failed"],
    ["open C:\\Users\\ada\\a.db failed", "open <path> failed"],
    ["GET https://api.example.com/v1/users?id=5 timed out", "GET <url> timed out"],
    ["connect to postgres://db.local:5432/x, retrying", "connect to <url> retrying"],
    ["mail to ada@example.com bounced", "mail to <email> bounced"],
    ["late since 2026-01-01T10:00:00.123Z", "late since <time>"],
    ["late since 2026-01-01 10:00:00+02:00", "late since <time>"],
    ["late since Thu Jan 01 2026 10:00:00 GMT+0100 (Central European Standard Time)", "late since <time>"],
    ["late since Thu, 01 Jan 2026 10:00:00 GMT", "late since <time>"],
    ["late since 10:00:00", "late since <time>"],
    ["connect ECONNREFUSED 127.0.0.1:5432", "connect ECONNREFUSED <address>"],
    ["connect ECONNREFUSED ::1:5432", "connect ECONNREFUSED <address>"],
    ["connect ECONNREFUSED [fe80::1ff:fe23:4567:890a]:80", "connect ECONNREFUSED <address>"],
    ["std::bad_alloc in Foo::bar", "std::bad_alloc in Foo::bar"],
    ["two\n  lines\tand tabs ", "two lines and tabs"],
    ["it broke", "it broke"],
    ["", ""],
  ])("of %j", (message, expected) => {
    expect(normalizeMessage(message)).toBe(expected);
  });

  it("may have variable parts of any length before its limit", () => {
    const rest = "x ".repeat(1_000);
    expect(normalizeMessage(`order 1 failed: ${rest}`)).toBe(normalizeMessage(`order 1000000 failed: ${rest}`));
  });

  it("keeps its beginning up to the limit", () => {
    const normal = normalizeMessage("x".repeat(1_000_000));
    expect(normal).toMatch(/^x+…$/);
    expect(normal).toHaveLength(MAX_MESSAGE);
  });
});

describe("a fingerprint", () => {
  it("has all parts that it was computed from", () => {
    const error = Object.assign(new TypeError("order 5 failed"), { code: 503 });
    error.stack = "TypeError: order 5 failed\n    at Mailer.send [as run] (/srv/app/dist/mail.js:10:5)";
    const { id, ...parts } = fingerprintOf("mail", error);
    expect(id).toMatch(FINGERPRINT_PATTERN);
    expect(parts).toEqual({
      name: "TypeError",
      code: "503",
      message: "order <number> failed",
      frame: "Mailer.send [as run] (dist/mail.js)",
    });
  });

  // Stored with jobs and groups: another value would split every group.
  it("is the same in every version", () => {
    expect(idOf("order 5 failed")).toBe("0dbd85554ab3ff98");
    expect(FINGERPRINT_PATTERN.test(STALE_FINGERPRINT)).toBe(true);
  });

  it("ignores lines, folders and variable parts", () => {
    const id = idOf("order 5 failed");
    expect(idOf("order 612 failed")).toBe(id);
    for (const frame of [
      "send (/srv/app/dist/mail.js:99:1)",
      "async send (/srv/app/dist/mail.js:10:5)",
      "send (file:///home/ada/app/dist/mail.js:10:5)",
      "send (file:///home/ada/app/dist/mail.js?t=5:10:5)",
      "send (C:\\app\\dist\\mail.js:10:5)",
    ]) {
      expect({ frame, id: idOf("order 5 failed", [frame]) }).toEqual({ frame, id });
    }
    expect(idOf("order 5 failed", ["send (/srv/app/dist/mail.js:10:5)", "other (/srv/app/dist/x.js:1:1)"])).toBe(id);
  });

  it("differs by type, name, code, message, function and file", () => {
    const error = thrown("it broke");
    const others = [
      fingerprintOf("mail", error),
      fingerprintOf("sync", error),
      fingerprintOf("mail", Object.assign(thrown("it broke"), { name: "TypeError" })),
      fingerprintOf("mail", Object.assign(thrown("it broke"), { code: "E_X" })),
      fingerprintOf("mail", thrown("it tore")),
      fingerprintOf("mail", thrown("it broke", ["receive (/srv/app/dist/mail.js:10:5)"])),
      fingerprintOf("mail", thrown("it broke", ["send (/srv/app/dist/letter.js:10:5)"])),
      fingerprintOf("mail", error, { stack: false }),
    ];
    expect(new Set(others.map(({ id }) => id)).size).toBe(others.length);
  });

  it("names the application's frame, not a package's", () => {
    const frames = [
      "node:internal/process/task_queues:95:5",
      "fetch (node:internal/deps/undici:1:1)",
      "query (/srv/app/node_modules/pg/lib/client.js:1:1)",
      "async load (/srv/app/dist/load.js:1:1)",
    ];
    expect(fingerprintOf("t", thrown("x", frames)).frame).toBe("load (dist/load.js)");
    expect(fingerprintOf("t", thrown("x", frames.slice(1, 3))).frame).toBe("fetch (deps/undici)");
  });

  it.each([
    ["new Mailer (/srv/app/dist/mail.js:1:1)", "new Mailer (dist/mail.js)"],
    ["file:///srv/app/dist/mail.js:1:1", "dist/mail.js"],
    ["async /srv/app/dist/mail.js:1:1", "dist/mail.js"],
    ["Object.<anonymous> (/srv/app/dist/mail.js:1:1)", "Object.<anonymous> (dist/mail.js)"],
    ["<anonymous>", "<anonymous>"],
  ])("has the frame of `at %s`", (frame, expected) => {
    expect(fingerprintOf("t", thrown("x", [frame])).frame).toBe(expected);
  });

  it("of an error from another realm has its parts", () => {
    const foreign: unknown = runInNewContext(`new RangeError("order 5")`, {}, { filename: "/srv/app/dist/vm.js" });
    expect(fingerprintOf("t", foreign)).toMatchObject({
      name: "RangeError",
      message: "order <number>",
      frame: "dist/vm.js",
    });
  });

  it("takes no frame from a message", () => {
    const frame = (order: number): string | null =>
      fingerprintOf("t", new Error(`remote:\n    at order${order} (/srv/a${order}.js:1:1)\n    at b`)).frame;
    expect(frame(1)).toBe(frame(2));
    expect(frame(1)).toMatch(/fingerprint\.test/);
  });

  it("reads frames after a message of megabytes", () => {
    const message = "x\n".repeat(500_000);
    expect(fingerprintOf("t", thrown(message)).frame).toBe("send (dist/mail.js)");
  });

  const revoked = Proxy.revocable({}, {});
  revoked.revoke();
  const throwing = new Proxy(new Error("x"), {
    get() {
      throw new Error("no");
    },
  });
  const unshowable = {
    toJSON() {
      throw new Error("no");
    },
    toString: 5,
  };
  it.each<[string, unknown]>([
    ["nothing", undefined],
    ["null", null],
    ["a string", "order 5"],
    ["a number", Number.NaN],
    ["a symbol", Symbol("s")],
    ["a bigint", 5n],
    ["a function", () => {}],
    ["an object without prototype", Object.create(null)],
    ["an object that throws when shown", unshowable],
    ["a revoked proxy", revoked.proxy],
    ["an error with throwing getters", throwing],
    ["an error whose fields are no strings", { message: {}, name: 5, stack: [], code: {} }],
    ["a message of 1 MB", thrown("a1-".repeat(350_000))],
    ["a message of 1 MB of slashes", thrown("/a".repeat(500_000))],
    ["a message of 1 MB of quotes", thrown(`"'`.repeat(500_000))],
    ["a message of 1 MB of at signs", thrown("a@".repeat(500_000))],
    ["a message of broken Unicode", thrown("\ud800 \0 \udfff")],
    ["a stack of 10 MB", thrown("x", Array(250_000).fill("send (/srv/app/dist/mail.js:10:5)"))],
    ["a stack of 10 MB without frames", Object.assign(new Error("x"), { stack: "\n ".repeat(5_000_000) })],
    ["a frame of 10 MB", thrown("x", [`${"f".repeat(10_000_000)} (/srv/app/dist/mail.js:10:5)`])],
    ["a frame of 10 MB of parentheses", thrown("x", ["a (".repeat(3_000_000)])],
    ["a name of 1 MB", Object.assign(new Error("x"), { name: "N".repeat(1_000_000), code: "C".repeat(1_000_000) })],
  ])("of %s is valid and small", (_what, value) => {
    expectValid(value);
  });

  it("is valid and repeatable for whatever is thrown", () => {
    fc.assert(fc.property(fc.anything({ withBigInt: true, withNullPrototype: true }), expectValid));
    const text = fc.oneof(fc.string({ unit: "binary", size: "max", maxLength: 3_000 }), fc.lorem());
    fc.assert(
      fc.property(text, text, text, (message, name, stack) => expectValid({ message, name, stack, code: name })),
    );
  });

  it("ignores any number, id and quoted text", () => {
    const quoted = fc.string({
      unit: fc.constantFrom("a", "b", " ", "1", "9", "/", "@", ".", ":", "-"),
      maxLength: 50,
    });
    const made = fc.tuple(
      fc.integer(),
      fc.uuid(),
      quoted,
      fc.ipV4(),
      fc.date({ noInvalidDate: true, min: new Date(0), max: new Date("9999-12-31") }),
    );
    const messageOf = ([number, id, text, ip, date]: [number, string, string, string, Date]): string =>
      `order ${number} of ${id} ("${text}") at ${ip} since ${date.toISOString()}`;
    fc.assert(
      fc.property(made, made, (one, other) => {
        expect(idOf(messageOf(one))).toBe(idOf(messageOf(other)));
      }),
    );
  });
});

function expectValid(value: unknown): void {
  const found = fingerprintOf("mail", value);
  expect(found.id).toMatch(FINGERPRINT_PATTERN);
  expect(found.message.length).toBeLessThanOrEqual(MAX_MESSAGE);
  expect(found.name?.length ?? 0).toBeLessThanOrEqual(MAX_NAME);
  expect(found.code?.length ?? 0).toBeLessThanOrEqual(MAX_NAME);
  expect(found.frame?.length ?? 0).toBeLessThanOrEqual(MAX_FRAME);
  for (const text of [found.message, found.name, found.code, found.frame]) {
    expect((text ?? "").isWellFormed() && !(text ?? "").includes("\0")).toBe(true);
  }
  expect(fingerprintOf("mail", value)).toEqual(found);
}
