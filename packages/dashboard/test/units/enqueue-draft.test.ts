import { describe, expect, it } from "vitest";
import { EMPTY, readDraft, requestOf } from "../../src/overlays/enqueue/draft.js";

describe("the draft of a new job", () => {
  it("sends only the fields that were filled", () => {
    expect(requestOf({ ...EMPTY, type: " mail " })).toEqual({ body: { type: "mail", input: {} }, issues: [] });
    const full = {
      ...EMPTY,
      type: "mail",
      input: '{"to":1}',
      queue: "q",
      priority: "-5",
      user: "u",
      tags: "a,b",
      when: "after" as const,
      delay: "10m",
      key: "k",
      maxAttempts: "2",
    };
    expect(requestOf(full).body).toEqual({
      type: "mail",
      input: { to: 1 },
      queue: "q",
      priority: -5,
      user: "u",
      tags: ["a", "b"],
      delay: "10m",
      maxAttempts: 2,
      unique: { key: "k", scope: "live", onConflict: "keep" },
    });
  });

  it("names what cannot be read", () => {
    const { issues } = requestOf({ ...EMPTY, input: "{", priority: "x", when: "at", key: "k", scope: "period" });
    expect(issues.map(({ path }) => path)).toEqual(["type", "input", "priority", "runAt", "unique.scope"]);
  });

  it("makes scopes of periods and of calendars", () => {
    const draft = { ...EMPTY, type: "a", key: "k" };
    expect(requestOf({ ...draft, scope: "day" }).body.unique).toMatchObject({ scope: { calendar: "day" } });
    expect(requestOf({ ...draft, scope: "period", period: "1h" }).body.unique).toMatchObject({
      scope: { period: "1h" },
    });
  });

  it("ignores a stored string that is no draft", () => {
    expect(readDraft(null)).toEqual(EMPTY);
    expect(readDraft("{")).toEqual(EMPTY);
    expect(readDraft("[1]")).toEqual(EMPTY);
    expect(readDraft('{"type":"a","queue":1,"other":"x"}')).toEqual({ ...EMPTY, type: "a" });
  });
});
