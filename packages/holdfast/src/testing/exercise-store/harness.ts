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
  "cancel, retry and remove",
  "maintenance",
  "queries",
  "schedules",
  "schedules: fire",
  "schedules: slots",
  "audit log",
  "tokens",
  "migrate, close and hints",
  "concurrency",
  "schedules: concurrency",
  "processes",
] as const;

/** What a store's author tells the suite about the store. */
export interface StoreHarness {
  name: string;
  /**
   * A store on a new, empty database, migrated, driven by the given clock: a fake one in most cases, the system's in
   * those with real concurrency.
   */
  create(clock: Clock): Promise<StoreUnderTest>;
  /** The same, not yet migrated. Left out: the case where several handles set up one database at once is skipped. */
  createUnmigrated?(clock: Clock): Promise<StoreUnderTest>;
  /**
   * URL of an ES module that exports `openStore(address)`, by which other processes open the store. Left out: the one
   * behind `holdfast({ store: "<url>" })`.
   */
  opener?: string;
  /**
   * How many jobs the cases with many workers share. Default 10,000: fewer where the store is an emulator that takes longer
   * than the leases last.
   */
  many?: number;
  /** Exercises only these subjects, so that several test files can share the suite. Default: all. */
  subjects?: readonly StoreSubject[];
  /** Cases this store cannot pass, by the beginning of their titles, each with its reason. They show as skipped. */
  skip?: Readonly<Record<string, string>>;
}

export interface StoreUnderTest {
  store: Store;
  /** Another handle on the same database, as another process would have it. */
  again(): Promise<Store>;
  /** Address that other handles and processes can open; null where there is none: those cases are skipped. */
  address: string | null;
  /** Opens a transaction of the caller's own, for `insertIn`. Left out: those cases are skipped. */
  begin?(): Promise<CallerTransaction>;
  /** Takes the database away. The suite has closed every handle by then. */
  dispose(): Promise<void>;
}

/** The part of a store under test that a comparison with the model needs. */
export type ComparedStore = Pick<StoreUnderTest, "store" | "again" | "address" | "dispose">;

export interface CallerTransaction {
  /** What the store's `insertIn` takes. */
  tx: unknown;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

/** The part of vitest or node:test that the suite needs; `describe` and `it` of either fit. */
export interface TestRunner {
  describe(name: string, body: () => void): unknown;
  it(name: string, body: (context: TestContext) => Promise<void>, timeoutMs?: number): unknown;
}
export interface TestContext {
  skip(reason?: string): unknown;
}
