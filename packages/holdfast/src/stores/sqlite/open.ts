import { existsSync, realpathSync } from "node:fs";
import { resolve } from "node:path";
import type { Database } from "better-sqlite3";
import { auditWindow } from "../../access/audit-order.js";
import type { Clock } from "../../clock.js";
import { systemClock } from "../../clock.js";
import { durationMs, type Duration } from "../../duration.js";
import { ClosedError, InvalidOptionError } from "../../errors.js";
import { refuseForeignCursor } from "../list-plan.js";
import { refuseUnknown, show } from "../../options.js";
import type { Hint, PendingMigration, ReapedJob, Store } from "../../store.js";
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
  callersOperationsOn,
  type CallersOperations,
  type OperationName,
  type Operations,
} from "./jobs/prepared-store.js";
import { CLOCK_WRONG_MS, type StaleWalk } from "./jobs/maintenance.js";

export interface SqliteOptions {
  /** `full` (default): an answered enqueue survives a power cut. `normal`: it survives a crash of the process. */
  durability?: Durability;
  /** How long a write waits for another process's lock. Default 5 s. */
  busyTimeout?: Duration;
  /**
   * Use the file as it is, for tools that look at a database: none is made, and one that is read-only can be read.
   * Default false: the file is made where there is none, and one that cannot be written is refused.
   */
  mustExist?: boolean;
  clock?: Clock;
}

const SQLITE_FIELDS: ReadonlySet<string> = new Set(["durability", "busyTimeout", "mustExist", "clock"]);

type OperationArgs<Name extends OperationName> = Operations[Name] extends (now: number, ...args: infer Args) => unknown
  ? Args
  : never;

/**
 * Opens a SQLite store on a file, or in memory (`:memory:`); `sqlite:` in front of either may be there. Nothing is touched
 * before `migrate`.
 */
export function openSqlite(given: string, options: SqliteOptions = {}): Store {
  refuseUnknown(options, SQLITE_FIELDS, "sqlite");
  if (typeof given !== "string") throw new InvalidOptionError("file", `${show(given)} is not the name of a file`);
  if (/^postgres(?:ql)?:/.test(given)) {
    throw new InvalidOptionError("file", "is an address of PostgreSQL; open it with postgres() of holdfast/postgres");
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
    throw new InvalidOptionError("durability", `${JSON.stringify(options.durability)} is none of "full", "normal"`);
  }
  const listeners = new Set<(hint: Hint) => void>();
  const onHints = (hints: Hint[]): void => {
    for (const hint of hints) for (const listener of listeners) listener(hint);
  };
  const link = memory ? inlineLink(connection, onHints) : threadLink(connection, onHints);
  // With the system's clock the time is taken when a call is carried out, not when it was queued behind a lock.
  const time = (): number | null => (clock === systemClock ? null : clock.now());
  const callers = new WeakMap<Database, CallersOperations>();
  // How far the wall clock has been ahead of the one that never jumps: tells when it was set back.
  let farthestAhead = Number.NEGATIVE_INFINITY;
  let closed = false;

  function send(op: Call["op"], args: readonly unknown[]): Promise<unknown> {
    if (closed) return Promise.reject(new ClosedError("the store is closed", "open a new one"));
    farthestAhead = Math.max(farthestAhead, clock.now() - clock.monotonic());
    const answer = link.call(op, args, time());
    if (!memory) clock.waitFor?.(answer);
    return answer;
  }
  function ask<Name extends OperationName>(
    op: Name,
    ...args: OperationArgs<Name>
  ): Promise<ReturnType<Operations[Name]>> {
    return send(op, args) as Promise<ReturnType<Operations[Name]>>;
  }

  /** Carried out at once, on the caller's connection. */
  function inside<Answer>(tx: unknown, work: (on: CallersOperations, now: number) => Answer): Answer {
    if (closed) throw new ClosedError("the store is closed", "open a new one");
    const db = callersTransaction(tx);
    let on = callers.get(db);
    if (on === undefined) refuseOtherFile(db, path);
    const { known = null } = connection;
    // The connection has the file that it had before; this path may lead to another by now.
    if (known !== null && !isInPlace(known)) throw movedFile(path);
    try {
      if (on === undefined) callers.set(db, (on = callersOperationsOn(db)));
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
    },

    async migrate() {
      connection.known = (await send("migrate", [])) as OpenFile | null;
    },
    pendingMigrations: async () => (await send("pending", [])) as PendingMigration[],
    async close() {
      if (closed) return;
      const done = send("close", []);
      closed = true;
      listeners.clear();
      await done;
    },

    insert: async (jobs) => (jobs.length === 0 ? [] : ask("insert", jobs)),
    insertIn: (tx, jobs) => inside(tx, (on, now) => on.insert(now, jobs)),
    settleIn: (tx, outcome, note) => inside(tx, (on, now) => on.settle(now, outcome, note)),

    async claim(request) {
      const { at, rows, nextDueAt } = await ask("claim", request);
      return { at, jobs: unpackClaimed(rows), nextDueAt };
    },
    start: async (marks) => (marks.length === 0 ? [] : ask("start", marks)),
    extend: async (leases, leaseMs) => (leases.length === 0 ? [] : ask("extend", leases, leaseMs)),
    settle: async (outcomes) => (outcomes.length === 0 ? [] : ask("settle", packOutcomes(outcomes))),
    note: async (notes) => (notes.length === 0 ? undefined : ask("note", notes)),

    get: (id, scope) => ask("get", id, scope ?? {}),
    async list(filter, page) {
      refuseForeignCursor(page);
      return ask("list", filter, page);
    },
    async skip(filter, page) {
      refuseForeignCursor(page);
      return ask("skip", filter, page);
    },
    cancel: (ids, scope) => ask("cancel", ids, scope ?? {}),
    retry: (ids, scope) => ask("retry", ids, scope ?? {}),
    remove: (ids, scope) => ask("remove", ids, scope ?? {}),

    async reapExpiredLeases(limit) {
      const laidDown: ReapedJob[] = [];
      let from: StaleWalk | null = null;
      do {
        const step: Awaited<ReturnType<Operations["reapExpiredLeases"]>> = await ask(
          "reapExpiredLeases",
          limit - laidDown.length,
          from,
        );
        laidDown.push(...step.laidDown);
        from = step.next;
      } while (from !== null && laidDown.length < limit);
      return laidDown;
    },
    expireOverdue: (limit) => ask("expireOverdue", limit),
    purge: (request) => ask("purge", request),
    async maintain() {
      const ahead = clock.now() - clock.monotonic();
      const wasWrong = farthestAhead - ahead > CLOCK_WRONG_MS;
      await ask("tidy", wasWrong);
      farthestAhead = ahead;
      if (!memory) await send("maintain", []);
    },
    tryAcquireDuty: (name, everyMs) => ask("tryAcquireDuty", name, everyMs),

    stats: () => ask("stats"),
    pause: (queue) => ask("setPaused", queue, true),
    resume: (queue) => ask("setPaused", queue, false),
    queues: () => ask("queues"),

    putSchedule: (schedule, version) => ask("putSchedule", schedule, version),
    getSchedule: (name) => ask("getSchedule", name),
    listSchedules: (filter, page) => ask("listSchedules", filter, page),
    removeSchedule: (name) => ask("removeSchedule", name),
    dueSchedules: (limit) => ask("dueSchedules", limit),
    fire: async (firings) => (firings.length === 0 ? [] : ask("fire", firings)),

    heartbeat: (worker) => ask("heartbeat", worker),
    deregister: (id) => ask("deregister", id),
    workers: () => ask("workers"),

    audit: async (entries) => (entries.length === 0 ? undefined : ask("audit", entries)),
    async listAudit(filter, page) {
      // Here, for an error loses its class on the way from the thread.
      auditWindow(filter, page.cursor);
      return ask("listAudit", filter, page);
    },
    purgeAudit: (request) => ask("purgeAudit", request),
    putToken: (token) => ask("putToken", token),
    getToken: (id) => ask("getToken", id),
    listTokens: () => ask("listTokens"),
    removeToken: (id) => ask("removeToken", id),
    cursorKey: () => ask("cursorKey"),

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
      "is not a better-sqlite3 connection; pass the Database whose transaction is open",
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
  throw new InvalidOptionError("tx", `is a connection to ${String(name)}, but the jobs live in ${path}`);
}

function sameFile(a: string, b: string): boolean {
  const real = (file: string): string => (existsSync(file) ? realpathSync(file) : resolve(file));
  return real(a) === real(b);
}
