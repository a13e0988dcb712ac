import { existsSync, realpathSync } from "node:fs";
import { resolve } from "node:path";
import type { Database } from "better-sqlite3";
import { auditWindow } from "../../access/audit-order.js";
import type { Clock } from "../../clock.js";
import { systemClock } from "../../clock.js";
import { durationMs, type Duration } from "../../duration.js";
import { ClosedError, InvalidOptionError } from "../../errors.js";
import { refuseForeignCursor } from "../list-plan.js";
import { optionKeys, refuseUnknown, show } from "../../options.js";
import type { EmitResult, Hint, NewEvent, PendingMigration, ReapedJob, Store } from "../../store.js";
import { unpackClaimed } from "./jobs/claim.js";
import type { ConnectionOptions } from "./thread/connection.js";
import type { Durability } from "./durability.js";
import type { Call } from "./thread/executor.js";
import { readSqliteFile } from "./file-path.js";
import { packError, unpackError } from "./thread/errors.js";
import { isInPlace, movedFile, type OpenFile } from "./thread/file-guard.js";
import { packOutcomes } from "./jobs/leases.js";
import { inlineLink, threadLink } from "./thread/link.js";
import {
  transactionOperationsOn,
  type TransactionOperations,
  type OperationName,
  type Operations,
} from "./jobs/prepared-store.js";
import { CLOCK_WRONG_MS, type ReapPosition } from "./jobs/maintenance.js";
import { readCursor, unpack } from "./jobs/transitions.js";

export interface SqliteOptions {
  /** `full` (default): an acknowledged enqueue survives a power failure. `normal`: it survives a crash of the process. */
  durability?: Durability;
  /** How long a write waits for a lock of another process. Default 5 s. */
  busyTimeout?: Duration;
  /**
   * For tools that inspect a database: do not create the file, and accept a read-only file. Default false: the file is created
   * if it does not exist, and a file that cannot be written is refused.
   */
  mustExist?: boolean;
  clock?: Clock;
}

const SQLITE_FIELDS: ReadonlySet<string> = optionKeys<SqliteOptions>({
  durability: true,
  busyTimeout: true,
  mustExist: true,
  clock: true,
});

/** Waits for an event that one call to the thread ends. */
const WAITS_CHUNK = 500;

type OperationArgs<Name extends OperationName> = Operations[Name] extends (now: number, ...args: infer Args) => unknown
  ? Args
  : never;

/**
 * Opens a SQLite store on a file, or in memory (`:memory:`). The prefix `sqlite:` is allowed. The file is not touched before
 * `migrate`.
 */
export function openSqlite(given: string, options: SqliteOptions = {}): Store {
  refuseUnknown(options, SQLITE_FIELDS, "sqlite");
  if (typeof given !== "string") throw new InvalidOptionError("file", `${show(given)} is not a file path`);
  if (/^postgres(?:ql)?:/.test(given)) {
    throw new InvalidOptionError("file", "is a PostgreSQL URL; open it with postgres() from holdfast/postgres");
  }
  const path = readSqliteFile(given.startsWith("sqlite:") ? given.slice("sqlite:".length) : given);
  const memory = path === ":memory:";
  const clock = options.clock ?? systemClock;
  const connection: ConnectionOptions = {
    file: path,
    durability: options.durability ?? "full",
    busyMs: durationMs(options.busyTimeout ?? 5_000, "busyTimeout"),
    mustExist: !memory && options.mustExist === true,
  };
  if (!["full", "normal"].includes(connection.durability)) {
    throw new InvalidOptionError("durability", `${JSON.stringify(options.durability)} is not "full" or "normal"`);
  }
  const listeners = new Set<(hint: Hint) => void>();
  const onHints = (hints: Hint[]): void => {
    for (const hint of hints) for (const listener of listeners) listener(hint);
  };
  const link = memory ? inlineLink(connection, onHints) : threadLink(connection, onHints);
  // With the system clock, the thread reads the time when it executes the call: the call may have waited for a lock.
  const time = (): number | null => (clock === systemClock ? null : clock.now());
  const callers = new WeakMap<Database, TransactionOperations>();
  // The largest difference between the wall clock and the monotonic clock: shows that the wall clock was set back.
  let maxAheadMs = Number.NEGATIVE_INFINITY;
  let closed = false;

  function send(op: Call["op"], args: readonly unknown[]): Promise<unknown> {
    if (closed) return Promise.reject(new ClosedError("the store is closed", "open a new one"));
    maxAheadMs = Math.max(maxAheadMs, clock.now() - clock.monotonic());
    const result = link.call(op, args, time());
    if (!memory) clock.waitFor?.(result);
    return result;
  }
  function call<Name extends OperationName>(
    op: Name,
    ...args: OperationArgs<Name>
  ): Promise<ReturnType<Operations[Name]>> {
    return send(op, args) as Promise<ReturnType<Operations[Name]>>;
  }

  /** In chunks, so that other calls can run in between. A repeated emit goes on with the waits that are left. */
  async function emitOne(event: NewEvent): Promise<EmitResult> {
    const { first, done } = await call("emit", event, WAITS_CHUNK);
    for (let isDone = done; !isDone;) isDone = (await call("emit", event, WAITS_CHUNK)).done;
    return { first };
  }

  /** Runs synchronously, on the caller's connection. */
  function inTransaction<Result>(tx: unknown, work: (on: TransactionOperations, now: number) => Result): Result {
    if (closed) throw new ClosedError("the store is closed", "open a new one");
    const db = callersTransaction(tx);
    let on = callers.get(db);
    if (on === undefined) refuseOtherFile(db, path);
    const { expectedFile = null } = connection;
    // The caller's connection still has the file it opened; the path may lead to another file now.
    if (expectedFile !== null && !isInPlace(expectedFile)) throw movedFile(path);
    try {
      if (on === undefined) callers.set(db, (on = transactionOperationsOn(db)));
      return work(on, clock.now());
    } catch (error) {
      throw unpackError(packError(error), path);
    }
  }

  return {
    capabilities: {
      transactions: !memory,
      synchronous: true,
      strictOrder: true,
      push: true,
      metered: false,
      exactCounts: true,
      together: !memory,
      orderedTransitions: true,
    },

    async migrate() {
      connection.expectedFile = (await send("migrate", [])) as OpenFile | null;
    },
    pendingMigrations: async () => (await send("pending", [])) as PendingMigration[],
    async close() {
      if (closed) return;
      const done = send("close", []);
      closed = true;
      listeners.clear();
      await done;
    },

    insert: async (jobs) => (jobs.length === 0 ? [] : call("insert", jobs)),
    insertIn: (tx, jobs) => inTransaction(tx, (on, now) => (jobs.length === 0 ? [] : on.insert(now, jobs))),
    settleIn: (tx, outcome, note) => inTransaction(tx, (on, now) => on.settle(now, outcome, note)),

    async claim(request) {
      const { at, rows, nextDueAt } = await call("claim", request);
      return { at, jobs: unpackClaimed(rows), nextDueAt };
    },
    start: async (marks) => (marks.length === 0 ? [] : call("start", marks)),
    extend: async (leases, leaseMs) => (leases.length === 0 ? [] : call("extend", leases, leaseMs)),
    settle: async (outcomes) => (outcomes.length === 0 ? [] : call("settle", packOutcomes(outcomes))),
    note: async (notes) => (notes.length === 0 ? undefined : call("note", notes)),

    steps: (job) => call("steps", job),
    saveSteps: async (writes) => (writes.length === 0 ? [] : call("saveSteps", writes)),
    saveStepIn: (tx, write) => inTransaction(tx, (on, now) => on.saveStep(now, write)),
    openChildren: async (jobs, limit) => (jobs.length === 0 ? [] : call("openChildren", jobs, limit)),
    emit: (events) => Promise.all(events.map(emitOne)),
    emitIn: (tx, event) => inTransaction(tx, (on, now) => on.emit(now, event)),
    purgeEvents: (limit) => call("purgeEvents", limit),
    repairWaits: (limit) => call("repairWaits", limit),

    get: (id, scope) => call("get", id, scope ?? {}),
    async list(filter, page) {
      refuseForeignCursor(page);
      return call("list", filter, page);
    },
    async skip(filter, page) {
      refuseForeignCursor(page);
      return call("skip", filter, page);
    },
    cancel: (ids, scope) => call("cancel", ids, scope ?? {}),
    retry: (ids, scope) => call("retry", ids, scope ?? {}),
    update: async (updates, scope) => (updates.length === 0 ? [] : call("update", updates, scope ?? {})),
    remove: (ids, scope) => call("remove", ids, scope ?? {}),
    keyHolder: (key) => call("keyHolder", key),
    freeKey: (key) => call("freeKey", key),

    async reapExpiredLeases(limit) {
      const reaped: ReapedJob[] = [];
      let from: ReapPosition | null = null;
      do {
        const step: Awaited<ReturnType<Operations["reapExpiredLeases"]>> = await call(
          "reapExpiredLeases",
          limit - reaped.length,
          from,
        );
        reaped.push(...step.reaped);
        from = step.next;
      } while (from !== null && reaped.length < limit);
      return reaped;
    },
    expireOverdue: (limit) => call("expireOverdue", limit),
    purge: (request) => call("purge", request),
    purgeDue: (limit) => call("purgeDue", limit),
    async maintain() {
      const aheadMs = clock.now() - clock.monotonic();
      await call("maintain", maxAheadMs - aheadMs > CLOCK_WRONG_MS);
      maxAheadMs = aheadMs;
      if (!memory) await send("compact", []);
    },
    tryAcquireDuty: (name, everyMs) => call("tryAcquireDuty", name, everyMs),

    stats: () => call("stats"),
    pause: (queue, by = null) => call("pause", queue, by),
    resume: (queue) => call("resume", queue),
    queues: () => call("queues"),
    countAhead: (before, atMost) => call("countAhead", before, atMost),

    recordErrors: async (groups) => (groups.length === 0 ? undefined : call("recordErrors", groups)),
    errorGroups: (limit) => call("errorGroups", limit),
    purgeErrorGroups: (before) => call("purgeErrorGroups", before),
    putHistory: async (records) => (records.length === 0 ? undefined : call("putHistory", records)),
    history: (range) => call("history", range),
    mergeHistory: (merge) => call("mergeHistory", merge),
    purgeHistory: (request) => call("purgeHistory", request),
    recordTransitions: (forMs) => call("recordTransitions", forMs),
    async transitions(cursor, limit) {
      const position = readCursor(cursor);
      if (position === null) throw new InvalidOptionError("cursor", "is not a cursor of this store's transitions");
      const page = await call("transitions", position, limit);
      return page === null ? null : unpack(page);
    },
    purgeTransitions: (request) => call("purgeTransitions", request),

    putSchedule: (schedule, version) => call("putSchedule", schedule, version),
    getSchedule: (name) => call("getSchedule", name),
    listSchedules: (filter, page) => call("listSchedules", filter, page),
    removeSchedule: (name) => call("removeSchedule", name),
    dueSchedules: (limit) => call("dueSchedules", limit),
    fire: async (firings) => (firings.length === 0 ? [] : call("fire", firings)),

    heartbeat: (worker) => call("heartbeat", worker),
    deregister: (id) => call("deregister", id),
    drainWorker: (id, draining) => call("drainWorker", id, draining),
    workers: () => call("workers"),
    putOperation: (operation, lease) => call("putOperation", operation, lease),
    claimOperation: (lease) => call("claimOperation", lease),
    saveOperation: (progress) => call("saveOperation", progress),
    endOperation: (end) => call("endOperation", end),
    stopOperation: (id) => call("stopOperation", id),
    getOperation: (id) => call("getOperation", id),
    operations: () => call("operations"),
    purgeOperations: (request) => call("purgeOperations", request),

    audit: async (entries) => (entries.length === 0 ? undefined : call("audit", entries)),
    async listAudit(filter, page) {
      // Checked here, because an error loses its class on the way from the thread.
      auditWindow(filter, page.cursor);
      return call("listAudit", filter, page);
    },
    purgeAudit: (request) => call("purgeAudit", request),
    putToken: (token) => call("putToken", token),
    getToken: (id) => call("getToken", id),
    listTokens: () => call("listTokens"),
    removeToken: (id) => call("removeToken", id),
    cursorKey: () => call("cursorKey"),

    listen(listener) {
      if (listeners.size === 0) link.watch(true);
      listeners.add(listener);
      return () => {
        if (listeners.delete(listener) && listeners.size === 0) link.watch(false);
      };
    },
  };
}

/** The caller's better-sqlite3 connection, checked. */
function callersTransaction(tx: unknown): Database {
  const db = tx as Partial<Database> | null;
  if (
    typeof db !== "object" ||
    db === null ||
    typeof db.prepare !== "function" ||
    typeof db.inTransaction !== "boolean"
  ) {
    throw new InvalidOptionError(
      "tx",
      "is not a better-sqlite3 connection; pass the Database with the open transaction",
    );
  }
  if (!db.inTransaction) {
    throw new InvalidOptionError("tx", "is not inside a transaction; call it within db.transaction(() => …)()");
  }
  return db as Database;
}

/** A job written to another file would never run. */
function refuseOtherFile({ name }: Database, path: string): void {
  if (path !== ":memory:" && typeof name === "string" && sameFile(name, path)) return;
  throw new InvalidOptionError("tx", `is a connection to ${String(name)}, but the store's file is ${path}`);
}

function sameFile(a: string, b: string): boolean {
  const real = (file: string): string => (existsSync(file) ? realpathSync(file) : resolve(file));
  return real(a) === real(b);
}
