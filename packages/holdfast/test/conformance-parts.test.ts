import { describe, expect, it } from "vitest";
import { exerciseStore, STORE_SUBJECTS } from "#src/testing/exercise-store/index.js";
import { CONFORMANCE_PARTS } from "./conformance-parts.js";

it("the parts of the conformance suite hold every subject once", () => {
  expect(Object.values(CONFORMANCE_PARTS).flat().toSorted()).toEqual([...STORE_SUBJECTS].toSorted());
});

it("an unknown subject is rejected by name", () => {
  const harness = { name: "any", create: () => Promise.reject(new Error("unused")), subjects: ["claims" as "claim"] };
  expect(() => exerciseStore({ describe, it }, harness)).toThrow(/^subjects: "claims" is none of "insert", /);
});
