import { STORE_SUBJECTS, type StoreSubject } from "#src/testing/exercise-store/index.js";

const SCHEDULES: readonly StoreSubject[] = [
  "queries",
  "schedules",
  "schedules: fire",
  "schedules: slots",
  "audit log",
  "tokens",
  "operations",
  "error groups",
  "history records",
];
const PROCESSES: readonly StoreSubject[] = [
  "migrate, close and hints",
  "transitions",
  "concurrency",
  "schedules: concurrency",
  "processes",
];

/** The conformance suite in parts of about the same length, each in a test file, so that several workers share it. */
export const CONFORMANCE_PARTS = {
  jobs: STORE_SUBJECTS.filter((subject) => !SCHEDULES.includes(subject) && !PROCESSES.includes(subject)),
  schedules: SCHEDULES,
  processes: PROCESSES,
};

export type ConformancePart = keyof typeof CONFORMANCE_PARTS;
