import type { StoreSubject } from "#src/testing/exercise-store/index.js";

/** The conformance suite in parts of about the same length, each in a test file, so that several workers share it. */
export const CONFORMANCE_PARTS = {
  jobs: [
    "insert",
    "insert in a transaction",
    "unique keys",
    "claim",
    "trace context",
    "start, extend and lost leases",
    "settle",
    "note",
    "cancel, retry and remove",
    "maintenance",
  ],
  schedules: ["queries", "schedules", "schedules: fire", "schedules: slots", "audit log", "tokens"],
  processes: ["migrate, close and hints", "concurrency", "schedules: concurrency", "processes"],
} as const satisfies Record<string, readonly StoreSubject[]>;

export type ConformancePart = keyof typeof CONFORMANCE_PARTS;
