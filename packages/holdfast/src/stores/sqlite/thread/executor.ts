import { statSync } from "node:fs";
import type { Database, Statement } from "better-sqlite3";
import type { Hint, PendingMigration } from "../../../store.js";
import { briefly } from "./exclusive-pragma.js";
import { connect, lookInto, type ConnectionOptions } from "./connection.js";
import { packError, type PackedError } from "./errors.js";
import { FileGuard, realPathOf, type OpenFile } from "./file-guard.js";
import { hintsOf } from "./hints.js";
import { migrate, pendingMigrations } from "../migrations.js";
import {
  LEASE_CALLS,
  operationsOn,
  READS,
  type OperationName,
  type Operations,
  type Room,
} from "../jobs/prepared-store.js";
import { keepSparePages, SPARE_PAGES } from "./spare-pages.js";

/** One call on its way to the connection. */
export interface Call {
  n: number;
  op: OperationName | "migrate" | "pending" | "maintain" | "verify" | "close";
  args: readonly unknown[];
  /** Set where a test's clock rules; otherwise the time is taken when the call is carried out. */
  now: number | null;
}
export type Answer = readonly [n: number, value: unknown, error?: PackedError];

/** Carries out calls on one connection. Runs on the store's own thread, or inline for `:memory:`. */
export interface Executor {
  /** Whatever has gathered goes in one transaction, so that many callers share one sync to disk. */
  execute(calls: readonly Call[]): { answers: Answer[]; hints: Hint[] };
  /** Hints if another connection has written since the last look. */
  look(): Hint[];
  /** Sees to the files of the connection; what is wrong with them is told by the next call. */
  watchFiles(): void;
}

// A WAL past this size is folded back and cut as soon as no reader is in the way.
const WAL_TRUNCATE_BYTES = 16 * 1024 * 1024;
const FREE_PAGES_A_STEP = 500;
// Calls that take longer are looked at again: time enough has passed to move the file.
const SLOW_MS = 10;

export function createExecutor(options: ConnectionOptions): Executor {
  let db: Database | undefined;
  let guard: FileGuard | null = null;
  let room: Room | undefined;
  let transaction: Transaction | undefined;
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
    options.known ??= guard?.file ?? null;
    db = connection;
    return db;
  }
  function prepared(): Room {
    if (room === undefined) {
      room = operationsOn(open());
      seenVersion = dataVersion(open());
    }
    return room;
  }

  /** Runs operations in one transaction; throws if any of them does, with nothing done. */
  function together(calls: readonly Call[]): Answer[] {
    const { operations, counts } = prepared();
    const connection = open();
    guard?.before();
    if (calls.every((call) => READS.has(call.op as OperationName))) return calls.map((call) => run(operations, call));
    const { begin, commit } = (transaction ??= transactionOn(connection));
    begin.run();
    try {
      const answers = calls.map((call) => run(operations, call));
      counts.write(calls.at(-1)?.now ?? Date.now());
      commit.run();
      return answers;
    } catch (error) {
      counts.discard();
      // A full disk makes SQLite roll back by itself.
      if (connection.inTransaction) rollBack(connection);
      throw error;
    }
  }

  function forget(): void {
    room = undefined;
    transaction = undefined;
    db = undefined;
    guard = null;
  }

  /** A connection that cannot even roll back is of no more use: the next call opens another. */
  function rollBack(connection: Database): void {
    try {
      connection.exec("ROLLBACK");
    } catch {
      forget();
      connection.close();
    }
  }

  function run(operations: Operations, call: Call): Answer {
    const operation = operations[call.op as OperationName] as (now: number, ...args: readonly unknown[]) => unknown;
    return [call.n, operation(call.now ?? Date.now(), ...call.args)];
  }

  function attempt(calls: readonly Call[], isRepeat = false): Answer[] {
    if (calls.length === 0) return [];
    try {
      return together(calls);
    } catch (error) {
      const packed = packError(error);
      if (mended(packed) && !isRepeat) return attempt(calls, true);
      // A lock that nobody lets go of concerns all alike: waiting for it once is enough. So does a file that was moved.
      const concernsAll = packed.kind === "unavailable" || packed.kind === "moved";
      if (calls.length === 1 || concernsAll) return refused(calls, packed);
      // One call spoilt the group: each goes alone, and only the bad one fails.
      return calls.flatMap((call) => attempt([call], isRepeat));
    }
  }

  /** Does what can be done about an error, and returns whether another try is worth it. */
  function mended({ kind }: PackedError): boolean {
    if (kind === "moved") return guard?.mend() === true;
    return kind === "full" && db !== undefined && cutWal(db);
  }

  /** Over a connection of its own: ours would make the file. What is in memory is nobody else's. */
  function pending(): PendingMigration[] {
    if (db !== undefined || options.file === ":memory:") return pendingMigrations(db ?? null);
    return lookInto(options, pendingMigrations);
  }

  /** Returns which file it is, for those who outlive this connection. */
  function migrated(now: number): OpenFile | null {
    const connection = open();
    guard?.before();
    migrate(connection, now);
    if (options.file !== ":memory:" && !options.mustExist) keepSparePages(connection);
    guard?.verify();
    return options.known ?? null;
  }

  function special(call: Call, isRepeat = false): Answer {
    try {
      if (call.op === "migrate") return [call.n, migrated(call.now ?? Date.now())];
      if (call.op === "pending") return [call.n, pending()];
      if (call.op === "maintain") foldWal(open());
      if (call.op === "verify") verify();
      if (call.op === "close") {
        const connection = db;
        forget();
        connection?.close();
      }
      return [call.n, undefined];
    } catch (error) {
      const packed = packError(error);
      return mended(packed) && !isRepeat ? special(call, true) : [call.n, undefined, packed];
    }
  }

  function verify(): void {
    open();
    guard?.verify();
  }

  /** What went to a file that is gone is not acknowledged. */
  function whatMoved(calls: readonly Call[]): Answer[] {
    try {
      guard?.verify();
      return [];
    } catch (error) {
      const ordinary = calls.filter(({ op }) => !isSpecial(op));
      return refused(ordinary, packError(error));
    }
  }

  /** A lone claim that would find nothing must not take the write lock from those who have work. */
  function emptyClaim(call: Call): Answer | null {
    if (call.op !== "claim") return null;
    try {
      const request = call.args[0] as Parameters<Room["emptyClaim"]>[0];
      const known = prepared();
      guard?.before();
      const empty = known.emptyClaim(request, call.now ?? Date.now());
      return empty === null ? null : [call.n, empty];
    } catch {
      return null;
    }
  }

  return {
    execute(calls) {
      const begun = performance.now();
      const answers = new Map<number, Answer>();
      const keep = (group: readonly Answer[]): void => {
        for (const answer of group) answers.set(answer[0], answer);
      };
      let reads: Call[] = [];
      let writes: Call[] = [];
      const flush = (): void => {
        // Reads need no lock and must not wait with the writes for one.
        keep(attempt(reads));
        const [only] = writes;
        const empty = writes.length === 1 && only !== undefined ? emptyClaim(only) : null;
        keep(empty === null ? attempt(writes) : [empty]);
        reads = [];
        writes = [];
      };
      for (const call of calls) {
        if (isSpecial(call.op)) {
          flush();
          keep([special(call)]);
        } else (READS.has(call.op) ? reads : writes).push(call);
      }
      flush();
      // The file is looked for while this runs (see link.ts). Where it took long there was time to move it meanwhile.
      if (performance.now() - begun >= SLOW_MS) keep(whatMoved(calls));
      const inOrder = calls.map((call) => answers.get(call.n) ?? ([call.n, undefined] as Answer));
      return { answers: inOrder, hints: hintsOf(calls, inOrder) };
    },

    watchFiles: () => void guard?.mend(),

    look() {
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

/** Prepared once: to parse them again for each small write would be a twentieth of it. */
interface Transaction {
  begin: Statement;
  commit: Statement;
}

function transactionOn(db: Database): Transaction {
  return { begin: db.prepare("BEGIN IMMEDIATE"), commit: db.prepare("COMMIT") };
}

function refused(calls: readonly Call[], error: PackedError): Answer[] {
  return calls.map((call) => [call.n, undefined, error]);
}

/**
 * Whether somebody relies on what it wrote being found after a restart. Not so with the calls of workers: a job whose end is not
 * found is run again once its lease is over. For them and for reads it is enough that a moved file is noticed soon.
 */
export function isReliedOn(op: Call["op"]): boolean {
  return !isSpecial(op) && !READS.has(op) && !LEASE_CALLS.has(op);
}

/** Whether it concerns the connection as a whole, and goes alone. */
function isSpecial(op: Call["op"]): op is Exclude<Call["op"], OperationName> {
  return op === "migrate" || op === "pending" || op === "maintain" || op === "verify" || op === "close";
}

/** Changes whenever another connection has written. */
function dataVersion(db: Database): number {
  return db.pragma("data_version", { simple: true }) as number;
}

function foldWal(db: Database): void {
  const spare = (db.pragma("freelist_count", { simple: true }) as number) - SPARE_PAGES;
  if (spare > 0) db.pragma(`incremental_vacuum(${Math.min(spare, FREE_PAGES_A_STEP)})`);
  else keepSparePages(db);
  const wal = statSync(`${realPathOf(db)}-wal`, { throwIfNoEntry: false });
  if (wal !== undefined && wal.size > WAL_TRUNCATE_BYTES) cutWal(db);
}

/**
 * Folds the write-ahead log into the file and gives its room back: on a full disk the log may be what fills it. False if there is
 * not even the room to fold it. Someone who reads for long must not stop the queue: then what can be folded is, the room is
 * used again by the next writes, and the cut is tried again next time.
 */
function cutWal(db: Database): boolean {
  try {
    briefly(db, "wal_checkpoint(TRUNCATE)");
    return true;
  } catch {
    return false;
  }
}
