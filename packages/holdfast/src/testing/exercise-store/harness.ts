import type { Clock } from "../../clock.js";
import type { Store } from "../../store.js";

/** A part of the suite; the cases of each are in a `describe` of that name. */
export type StoreSubject = (typeof STORE_SUBJECTS)[number];

export const STORE_SUBJECTS = [
  "insert",
  "insert in a transaction",
  "unique keys",
  "claim",
  "trace context",
  "start, extend and lost leases",
  "settle",
  "note",
  "steps",
  "waits and events",
  "cancel, retry and remove",
  "update and keys",
  "settings, parents and orders",
  "maintenance",
  "queries",
  "schedules",
  "schedules: fire",
  "schedules: slots",
  "audit log",
  "tokens",
  "operations",
  "error groups",
  "history records",
  "migrate, close and hints",
  "transitions",
  "concurrency",
  "schedules: concurrency",
  "processes",
] as const;

/** Describes a store to the suite. */
export interface StoreHarness {
  name: string;
  /**
   * Creates a store on a new, empty, migrated database. It must use the given clock: a fake clock in most cases, the system
   * clock in those with real concurrency.
   */
  create(clock: Clock): Promise<StoreUnderTest>;
  /** The same, not migrated. If omitted, the cases about concurrent creation of a database are skipped. */
  createUnmigrated?(clock: Clock): Promise<StoreUnderTest>;
  /**
   * URL of an ES module that exports `openStore(address)`, with which other processes open the store. Default: the one of
   * `holdfast({ store: "<url>" })`.
   */
  opener?: string;
  /**
   * The number of jobs in cases with many workers. Default 10,000. Use fewer if the store is an emulator that is slower than
   * the leases.
   */
  many?: number;
  /** Exercises only these subjects, so that several test files can share the suite. Default: all. */
  subjects?: readonly StoreSubject[];
  /** Cases that this store cannot pass, by the beginning of their titles, each with a reason. They are reported as skipped. */
  skip?: Readonly<Record<string, string>>;
}

export interface StoreUnderTest {
  store: Store;
  /** Opens another handle on the same database, like another process. */
  again(): Promise<Store>;
  /** An address that other handles and processes can open. If null, cases with several handles are skipped. */
  address: string | null;
  /** Opens a caller's transaction for `insertIn`. If omitted, those cases are skipped. */
  begin?(): Promise<CallerTransaction>;
  /** Deletes the database, after the suite has closed every handle. */
  dispose(): Promise<void>;
}

/** The part of a store under test that a comparison with the model needs. */
export type ComparedStore = Pick<StoreUnderTest, "store" | "again" | "address" | "dispose">;

export interface CallerTransaction {
  /** The argument for the store's `insertIn`. */
  tx: unknown;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

/** The part of vitest or node:test that the suite uses. Pass `describe` and `it` of either. */
export interface TestRunner {
  describe(name: string, body: () => void): unknown;
  it(name: string, body: (context: TestContext) => Promise<void>, timeoutMs?: number): unknown;
}
export interface TestContext {
  skip(reason?: string): unknown;
}
