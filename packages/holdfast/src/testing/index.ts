/** The testing kit: a clock you move by hand, assertions, and the suite every store must pass. */
export { fakeClock } from "./clock.js";
export type { FakeClock } from "./clock.js";
export { exerciseStore } from "./exercise-store/index.js";
export type { StoreHarness, StoreUnderTest, TestRunner } from "./exercise-store/index.js";
export { expectEnqueued, expectNotEnqueued } from "./expect.js";
