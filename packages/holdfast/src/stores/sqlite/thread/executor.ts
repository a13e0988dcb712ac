import { statSync } from "node:fs";
import type { Database, Statement } from "better-sqlite3";
import type { Hint, PendingMigration } from "../../../store.js";
import { exclusivePragma } from "./exclusive-pragma.js";
import { connect, inspectFile, type ConnectionOptions } from "./connection.js";
import { packError, type PackedError } from "./errors.js";
import { FileGuard, realPathOf, type OpenFile } from "./file-guard.js";
import { hintsOf } from "./hints.js";
import { migrate, pendingMigrations } from "../migrations.js";
import {
  LEASE_CALLS,
  prepareStore,
  READS,
  type OperationName,
  type Operations,
  type PreparedStore,
} from "../jobs/prepared-store.js";
import { keepSparePages, SPARE_PAGES } from "./spare-pages.js";

/** A call to the connection. */
export interface Call {
  n: number;
  op: OperationName | "migrate" | "pending" | "compact" | "verify" | "close";
  args: readonly unknown[];
  /** The time of a test's clock. Null: the system's time when the call is executed. */
  now: number | null;
}
export type CallResult = readonly [n: number, value: unknown, error?: PackedError];

/** Executes calls on one connection. Runs on the store's thread, or inline for `:memory:`. */
export interface Executor {
  /**
   * Group commit: all writes that have accumulated go into one transaction, because every commit is a sync to disk and many
   * callers can share one. If the transaction fails, each call is repeated alone, so that only the bad one fails.
   */
  execute(calls: readonly Call[]): { results: CallResult[]; hints: Hint[] };
  /** Wake-up hints if another connection has written since the last call. */
  changesByOthers(): Hint[];
  /** Checks that the files are in place, and repairs what it can. The next call reports a problem. */
  checkFiles(): void;
}

// A larger WAL is checkpointed and truncated as soon as no reader prevents it.
const WAL_TRUNCATE_BYTES = 16 * 1024 * 1024;
const MAX_PAGES_FREED = 500;
// After calls that took longer, the files are checked again: there was time to move them.
const SLOW_MS = 10;

export function createExecutor(options: ConnectionOptions): Executor {
  let db: Database | undefined;
  let guard: FileGuard | null = null;
  let store: PreparedStore | undefined;
  let transaction: TransactionStatements | undefined;
  let seenVersion = 0;
  let seenSchedule: number | null = null;

  function open(): Database {
    if (db !== undefined) return db;
    const connection = connect(options);
    try {
      guard = FileGuard.of(connection);
    } catch (error) {
      connection.close();
      throw error;
    }
    options.expectedFile ??= guard?.file ?? null;
    db = connection;
    return db;
  }
  function prepared(): PreparedStore {
    if (store === undefined) {
      store = prepareStore(open());
      seenVersion = dataVersion(open());
    }
    return store;
  }

  /** Runs calls in one transaction. If one throws, the transaction is rolled back. */
  function inOneTransaction(calls: readonly Call[]): CallResult[] {
    const { operations, counts } = prepared();
    const connection = open();
    guard?.check();
    if (calls.every((call) => READS.has(call.op as OperationName))) return calls.map((call) => run(operations, call));
    const { begin, commit } = (transaction ??= transactionOn(connection));
    begin.run();
    try {
      const results = calls.map((call) => run(operations, call));
      counts.write(calls.at(-1)?.now ?? Date.now());
      commit.run();
      return results;
    } catch (error) {
      counts.discard();
      // On a full disk SQLite has already rolled back.
      if (connection.inTransaction) rollBack(connection);
      throw error;
    }
  }

  function resetConnection(): void {
    store = undefined;
    transaction = undefined;
    db = undefined;
    guard = null;
  }

  /** A connection that cannot roll back is closed. The next call opens a new one. */
  function rollBack(connection: Database): void {
    try {
      connection.exec("ROLLBACK");
    } catch {
      resetConnection();
      connection.close();
    }
  }

  function run(operations: Operations, call: Call): CallResult {
    const operation = operations[call.op as OperationName] as (now: number, ...args: readonly unknown[]) => unknown;
    return [call.n, operation(call.now ?? Date.now(), ...call.args)];
  }

  function runGroup(calls: readonly Call[], isRepeat = false): CallResult[] {
    if (calls.length === 0) return [];
    try {
      return inOneTransaction(calls);
    } catch (error) {
      const packed = packError(error);
      if (repair(packed) && !isRepeat) return runGroup(calls, true);
      // A lock or a moved file fails all calls alike. Repeating each alone would wait for the lock once per call.
      const failsAll = packed.kind === "unavailable" || packed.kind === "moved";
      if (calls.length === 1 || failsAll) return errorResults(calls, packed);
      // One call failed the group: each is repeated alone, and only the bad one fails.
      return calls.flatMap((call) => runGroup([call], isRepeat));
    }
  }

  /** Repairs the cause of an error where possible. Returns whether the calls should be repeated. */
  function repair({ kind }: PackedError): boolean {
    if (kind === "moved") return guard?.repair() === true;
    return kind === "full" && db !== undefined && truncateWal(db);
  }

  /** On a separate connection: opening ours would create the file. A `:memory:` database has only one connection. */
  function pending(): PendingMigration[] {
    if (db !== undefined || options.file === ":memory:") return pendingMigrations(db ?? null);
    return inspectFile(options, pendingMigrations);
  }

  /** Returns the identity of the file, which later connections must match. */
  function migrateFile(now: number): OpenFile | null {
    const connection = open();
    guard?.check();
    migrate(connection, now);
    if (options.file !== ":memory:" && !options.mustExist) keepSparePages(connection);
    guard?.verify();
    return options.expectedFile ?? null;
  }

  function runOnConnection(call: Call, isRepeat = false): CallResult {
    try {
      if (call.op === "migrate") return [call.n, migrateFile(call.now ?? Date.now())];
      if (call.op === "pending") return [call.n, pending()];
      if (call.op === "compact") compact(open());
      if (call.op === "verify") verify();
      if (call.op === "close") {
        const connection = db;
        resetConnection();
        connection?.close();
      }
      return [call.n, undefined];
    } catch (error) {
      const packed = packError(error);
      return repair(packed) && !isRepeat ? runOnConnection(call, true) : [call.n, undefined, packed];
    }
  }

  function verify(): void {
    open();
    guard?.verify();
  }

  /** Refuses all calls of the group if the file was moved: their writes are not acknowledged. */
  function refuseIfMoved(calls: readonly Call[]): CallResult[] {
    try {
      guard?.verify();
      return [];
    } catch (error) {
      const operations = calls.filter(({ op }) => !isConnectionCall(op));
      return errorResults(operations, packError(error));
    }
  }

  /** The result of a claim that finds no due job, without the write lock: idle workers must not block busy ones. */
  function emptyClaim(call: Call): CallResult | null {
    if (call.op !== "claim") return null;
    try {
      const request = call.args[0] as Parameters<PreparedStore["emptyClaim"]>[0];
      const known = prepared();
      guard?.check();
      const empty = known.emptyClaim(request, call.now ?? Date.now());
      return empty === null ? null : [call.n, empty];
    } catch {
      return null;
    }
  }

  return {
    execute(calls) {
      const startedAt = performance.now();
      const results = new Map<number, CallResult>();
      const collect = (group: readonly CallResult[]): void => {
        for (const result of group) results.set(result[0], result);
      };
      let reads: Call[] = [];
      let writes: Call[] = [];
      const flush = (): void => {
        // Reads need no lock, so they must not wait for one with the writes.
        collect(runGroup(reads));
        const [only] = writes;
        const empty = writes.length === 1 && only !== undefined ? emptyClaim(only) : null;
        collect(empty === null ? runGroup(writes) : [empty]);
        reads = [];
        writes = [];
      };
      for (const call of calls) {
        if (isConnectionCall(call.op)) {
          flush();
          collect([runOnConnection(call)]);
        } else (READS.has(call.op) ? reads : writes).push(call);
      }
      flush();
      // The link checks the file while this runs (see link.ts). If this took long, the file may have been moved since.
      if (performance.now() - startedAt >= SLOW_MS) collect(refuseIfMoved(calls));
      const inOrder = calls.map((call) => results.get(call.n) ?? ([call.n, undefined] as CallResult));
      const woken = store?.takeWoken() ?? 0;
      return { results: inOrder, hints: hintsOf(calls, inOrder, woken > 0) };
    },

    checkFiles: () => void guard?.repair(),

    changesByOthers() {
      const known = prepared();
      const version = dataVersion(open());
      if (version === seenVersion) return [];
      seenVersion = version;
      const ids = known.cancelRequested();
      const hints: Hint[] = [{ kind: "work", inMs: 0 }, { kind: "finished" }];
      const schedule = known.nextScheduleAt();
      if (schedule !== seenSchedule) hints.push({ kind: "schedules" });
      seenSchedule = schedule;
      return ids.length === 0 ? hints : [...hints, { kind: "cancel", ids }];
    },
  };
}

/** Prepared once: parsing them for each transaction would cost a small write 5 %. */
interface TransactionStatements {
  begin: Statement;
  commit: Statement;
}

function transactionOn(db: Database): TransactionStatements {
  return { begin: db.prepare("BEGIN IMMEDIATE"), commit: db.prepare("COMMIT") };
}

function errorResults(calls: readonly Call[], error: PackedError): CallResult[] {
  return calls.map((call) => [call.n, undefined, error]);
}

/**
 * Whether the file must be checked before the call is acknowledged, because its write must be found after a restart. Calls of
 * workers need no check: a job whose outcome is lost runs again when its lease expires. For them and for reads, a check ten
 * times a second is enough.
 */
export function needsFileCheck(op: Call["op"]): boolean {
  return !isConnectionCall(op) && !READS.has(op) && !LEASE_CALLS.has(op);
}

/** Whether the call is about the connection as a whole. Such calls run alone, outside a transaction. */
function isConnectionCall(op: Call["op"]): op is Exclude<Call["op"], OperationName> {
  return op === "migrate" || op === "pending" || op === "compact" || op === "verify" || op === "close";
}

/** Changes whenever another connection has written. */
function dataVersion(db: Database): number {
  return db.pragma("data_version", { simple: true }) as number;
}

/** Returns free pages to the file system, and truncates a large write-ahead log. */
function compact(db: Database): void {
  const excess = (db.pragma("freelist_count", { simple: true }) as number) - SPARE_PAGES;
  if (excess > 0) db.pragma(`incremental_vacuum(${Math.min(excess, MAX_PAGES_FREED)})`);
  else keepSparePages(db);
  const wal = statSync(`${realPathOf(db)}-wal`, { throwIfNoEntry: false });
  if (wal !== undefined && wal.size > WAL_TRUNCATE_BYTES) truncateWal(db);
}

/**
 * Checkpoints the write-ahead log into the file and truncates it: on a full disk the log may be what fills it. Returns false if
 * the checkpoint itself fails for lack of space. It does not wait for a long-running reader, which would stop the queue: the
 * log is then checkpointed as far as possible, later writes reuse its space, and the next call tries again.
 */
function truncateWal(db: Database): boolean {
  try {
    exclusivePragma(db, "wal_checkpoint(TRUNCATE)");
    return true;
  } catch {
    return false;
  }
}
