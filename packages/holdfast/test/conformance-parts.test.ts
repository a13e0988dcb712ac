import { expect, it } from "vitest";
import { STORE_SUBJECTS } from "#src/testing/exercise-store/index.js";
import { CONFORMANCE_PARTS } from "./conformance-parts.js";

it("the parts of the conformance suite hold every subject once", () => {
  expect(Object.values(CONFORMANCE_PARTS).flat().toSorted()).toEqual([...STORE_SUBJECTS].toSorted());
});
