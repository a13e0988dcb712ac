import { ClosedError, InvalidOptionError, type AuditRecord, type Holdfast } from "holdfast";
import { LIMITS } from "holdfast/store";
import { describe, expect, it } from "vitest";
import { recordAudit } from "#src/engine/client/audit.js";
import { engineOf } from "#src/engine/client/holdfast.js";
import { newId } from "#src/job/uuid.js";
import { scene } from "./scene.js";

const DAY = 86_400_000;
const retry = { actor: "token:deploy", action: "jobs.retry" };

async function entriesOf(hf: Holdfast): Promise<AuditRecord[]> {
  return (await hf.audit.list()).entries;
}
async function theEntry(hf: Holdfast): Promise<AuditRecord> {
  const [entry, ...others] = await entriesOf(hf);
  expect(others).toEqual([]);
  return entry as AuditRecord;
}

describe("the audit log", () => {
  it("B-18 records actor, action, target, time and count", async () => {
    const { hf, clock } = await scene();
    await recordAudit(engineOf(hf), { ...retry, target: { state: "dead" }, count: 12, detail: { reason: "fixed" } });
    await clock.advance("1h");
    await recordAudit(engineOf(hf), { actor: "cli:root@host", action: "queues.pause", target: "mail" });
    const now = clock.now();
    expect(await entriesOf(hf)).toEqual([
      {
        id: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
        at: new Date(now),
        actor: "cli:root@host",
        action: "queues.pause",
        target: "mail",
        count: 1,
        detail: null,
      },
      expect.objectContaining({
        at: new Date(now - 3_600_000),
        target: '{"state":"dead"}',
        count: 12,
        detail: { reason: "fixed" },
      }),
    ]);
  });

  it("B-18 is listed by actor, action and time, in pages", async () => {
    const { hf, clock } = await scene();
    for (const actor of ["ada", "bob", "ada"]) {
      await recordAudit(engineOf(hf), { actor, action: `did.${actor}` });
      await clock.advance("1d");
    }
    const now = clock.now();
    expect((await hf.audit.list({ actor: "ada" })).entries).toHaveLength(2);
    expect((await hf.audit.list({ action: "did.bob" })).entries).toHaveLength(1);
    expect((await hf.audit.list({ actor: "ada", action: "did.bob" })).entries).toEqual([]);
    expect((await hf.audit.list({ after: new Date(now - 2 * DAY), before: now - DAY })).entries).toMatchObject([
      { actor: "bob" },
    ]);
    const first = await hf.audit.list({ limit: 2 });
    expect(first.entries.map(({ actor }) => actor)).toEqual(["ada", "bob"]);
    const second = await hf.audit.list({ limit: 2, cursor: first.cursor });
    expect([second.entries.map(({ actor }) => actor), second.cursor]).toEqual([["ada"], null]);
  });

  it("stores an entry with the same id once", async () => {
    const { hf, clock } = await scene();
    const entry = { ...retry, id: newId(clock.now()) };
    await recordAudit(engineOf(hf), entry);
    await clock.advance("1m");
    await recordAudit(engineOf(hf), entry, { ...retry, target: "another" });
    expect((await entriesOf(hf)).map(({ target }) => target)).toEqual(["another", null]);
  });

  it("stores more entries than fit in one call", async () => {
    const { hf, store } = await scene();
    await recordAudit(engineOf(hf), ...Array.from({ length: LIMITS.auditEntries + 1 }, () => retry));
    expect(store.count("audit")).toBe(2);
    expect((await hf.audit.list({ limit: 100 })).entries).toHaveLength(LIMITS.auditEntries + 1);
  });

  it.each<[string, { target?: string | object; token?: string; detail?: object }, Partial<AuditRecord>]>([
    ["a target that is too long is cut", { target: "x".repeat(5_000) }, { target: `${"x".repeat(1_999)}…` }],
    [
      "a target is cut between characters",
      { target: `${"x".repeat(1_998)}\u{1f680}${"x".repeat(9)}` },
      { target: `${"x".repeat(1_998)}\u{fffd}…` },
    ],
    ["a target that no text can hold is mended", { target: "a\0b\ud800" }, { target: "a\u{fffd}b\u{fffd}" }],
    [
      "a filter that is too long is cut",
      { target: { tag: "x".repeat(5_000) } },
      { target: `{"tag":"${"x".repeat(1_991)}…` },
    ],
    [
      "a detail that is too large is left out",
      { detail: { note: "x".repeat(16_374) } },
      { detail: { omitted: "16385 bytes of JSON" } },
    ],
    [
      "a detail as large as may be is kept",
      { detail: { note: "x".repeat(16_373) } },
      { detail: { note: "x".repeat(16_373) } },
    ],
    [
      "the token's id is kept, however large the detail is",
      { detail: { note: "x".repeat(16_373) }, token: "0123456789abcdef" },
      { detail: { omitted: "16411 bytes of JSON", token: "0123456789abcdef" } },
    ],
    [
      "a detail that is no JSON is left out",
      { detail: { n: 1n } },
      { detail: { omitted: "a BigInt cannot be represented as JSON; send it as a string" } },
    ],
  ])("records unusual entries: %s", async (_name, odd, expected) => {
    const { hf } = await scene();
    await recordAudit(engineOf(hf), { ...retry, ...odd });
    expect(await theEntry(hf)).toMatchObject({ ...retry, ...expected });
  });

  it.each<[string, unknown, string, RegExp]>([
    ["an unknown option", { who: "ada" }, "who", /known: actor, action/],
    ["an empty actor", { actor: "" }, "actor", /non-empty string/],
    ["an action that is none", { action: 5 }, "action", /non-empty string/],
    ["a time in words", { after: "yesterday" }, "after", /ISO 8601/],
    ["a time that is none", { before: Number.NaN }, "before", /ISO 8601/],
    ["a limit of 0", { limit: 0 }, "limit", /1 to 1000/],
    ["a limit of 1001", { limit: 1_001 }, "limit", /1 to 1000/],
    ["a cursor of its own making", { cursor: "1_2" }, "cursor", /not a cursor/],
    ["a cursor that is a number", { cursor: 5 }, "cursor", /not a cursor/],
  ])("list refuses %s and names the option", async (_name, options, field, says) => {
    const { hf } = await scene();
    const refused = hf.audit.list(options as never);
    await expect(refused).rejects.toBeInstanceOf(InvalidOptionError);
    await expect(refused).rejects.toMatchObject({ field, message: expect.stringMatching(says) as string });
  });

  it("is closed with its client", async () => {
    const { hf } = await scene();
    await hf.close();
    await expect(hf.audit.list()).rejects.toMatchObject({ code: "CLOSED" });
    expect(() => engineOf(hf)).toThrow(ClosedError);
  });
});

describe("retention of the audit log", () => {
  const kept = async (hf: Holdfast): Promise<number> => (await entriesOf(hf)).length;

  it("entries are deleted after 90 days", async () => {
    const { hf, clock, store } = await scene();
    await recordAudit(engineOf(hf), retry);
    expect(store.calls("audit")[0]?.[0]).toMatchObject([{ keepMs: 90 * DAY }]);
    await clock.advance(90 * DAY);
    await hf.maintain();
    expect(await kept(hf)).toBe(1);
    await clock.advance(1);
    await hf.maintain();
    expect(await kept(hf)).toBe(0);
  });

  it.each<[string, number | string | { age: string }]>([
    ["milliseconds", 7 * DAY],
    ["text", "7d"],
    ["an age", { age: "7d" }],
  ])("the age can be set, in %s", async (_name, audit) => {
    const { hf, clock } = await scene({ retention: { audit } });
    await recordAudit(engineOf(hf), retry);
    await clock.advance(7 * DAY);
    await hf.maintain();
    expect(await kept(hf)).toBe(1);
    await clock.advance(1);
    await hf.maintain();
    expect(await kept(hf)).toBe(0);
  });

  it("false keeps entries forever", async () => {
    const { hf, clock, store } = await scene({ retention: { audit: false } });
    await recordAudit(engineOf(hf), retry);
    expect(store.calls("audit")[0]?.[0]).toMatchObject([{ keepMs: null }]);
    await clock.advance(3_000 * DAY);
    await hf.maintain();
    expect(store.count("purgeAudit")).toBe(0);
    expect(await kept(hf)).toBe(1);
  });

  it("a worker deletes entries in small steps, one process at a time", async () => {
    const { hf, clock, store, another } = await scene({ retention: { audit: "1h" } });
    for (let n = 0; n < 12; n++)
      await recordAudit(engineOf(hf), ...Array.from({ length: LIMITS.auditEntries }, () => retry));
    const options = { poll: "1h", lease: "1h" } as const;
    hf.work(options);
    (await another({ retention: { audit: "1h" } })).work(options);
    await clock.advance("1h");
    expect(await kept(hf)).toBeGreaterThan(0);
    store.forget();
    await clock.advance("1m");
    expect(await kept(hf)).toBe(0);
    expect(store.calls("purgeAudit").map(([request]) => (request as { limit: number }).limit)).toEqual([500, 500]);
  });

  it.each<[string, unknown, string]>([
    ["a count", { count: 5 }, "retention.audit.count"],
    ["no age", {}, "retention.audit.age"],
    ["what is no duration", "long", "retention.audit"],
    ["a misspelt name", undefined, "retention.audits"],
  ])("refuses %s and names the option", async (_name, audit, field) => {
    const retention = audit === undefined ? { audits: "1d" } : { audit };
    await expect(scene({ retention: retention as never })).rejects.toMatchObject({ code: "INVALID_OPTION", field });
  });
});
