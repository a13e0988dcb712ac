import { describe, expect, it } from "vitest";
import { auditCursor, auditWindow } from "#src/access/audit-order.js";

const ID = "018f4d2e-7b3a-7c11-8a55-0123456789ab";
const LOWEST = "00000000-0000-0000-0000-000000000000";

describe("the remaining audit entries", () => {
  it("are all, without filter and cursor", () => {
    expect(auditWindow({}, null)).toEqual({ from: 0, below: { at: Number.MAX_SAFE_INTEGER, id: LOWEST } });
  });

  it("are bounded by after (inclusive) and before (exclusive)", () => {
    expect(auditWindow({ after: 5, before: 9 }, null)).toEqual({ from: 5, below: { at: 9, id: LOWEST } });
  });

  it.each([
    ["a cursor that stands before it", 9, 8, { at: 8, id: ID }],
    ["a cursor of the same time, which the bound leaves out", 9, 9, { at: 9, id: LOWEST }],
    ["a cursor that stands after it", 9, 10, { at: 9, id: LOWEST }],
  ])("are bounded by the earlier of before and %s", (_name, before, at, below) => {
    expect(auditWindow({ before }, auditCursor({ at, id: ID })).below).toEqual(below);
  });

  it.each(["", "_", "5", `5_`, `_${ID}`, `-5_${ID}`, `5_${ID}5`, `5_${ID.toUpperCase()}`, `9007199254740992_${ID}`])(
    "refuses the cursor %j",
    (cursor) => {
      expect(() => auditWindow({}, cursor)).toThrow(expect.objectContaining({ field: "cursor" }));
    },
  );
});
