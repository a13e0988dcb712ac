/** Testing tools: a fake clock, assertions, the conformance suite for stores, and the reference model. */
export { fakeClock } from "./clock.js";
export type { FakeClock } from "./clock.js";
export { exerciseStore } from "./exercise-store/index.js";
export type {
  CallerTransaction,
  StoreHarness,
  StoreSubject,
  StoreUnderTest,
  TestContext,
  TestRunner,
} from "./exercise-store/index.js";
export { expectEnqueued, expectNotEnqueued } from "./expect.js";
export { compareWithModel, StoreMismatchError } from "./model-run.js";
export type { CompareOptions, ComparedStore } from "./model-run.js";
