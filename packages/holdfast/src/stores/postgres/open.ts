import { randomUUID } from "node:crypto";
import type { Clock } from "../../clock.js";
import { systemClock } from "../../clock.js";
import { ClosedError, InvalidOptionError } from "../../errors.js";
import {
  cancelHints,
  fireHints,
  insertHints,
  reapHints,
  retryHints,
  scheduleHints,
  settleHints,
  updateHints,
  WORK_NOW,
} from "../hints.js";
import { refuseForeignCursor } from "../list-plan.js";
import { optionKeys, readCount, refuseUnknown, show } from "../../options.js";
import type { FireResult, Firing, Hint, Store } from "../../store.js";
import { readAccess, type AccessOptions } from "./schema/access.js";
import { readPostgresUrl, readSchemaName } from "./connection/address.js";
import { auditOperations } from "./audit.js";
import { errorGroupOperations } from "./error-groups.js";
import { historyOperations } from "./history-records.js";
import { changeOperations } from "./jobs/changes.js";
import { claimOperation } from "./jobs/claim.js";
import { canSpareOne, lazyPool, listenAt, listenOn } from "./connection/connections.js";
import {
  callersRunner,
  Db,
  TransactionQueue,
  type CallersTransaction,
  type PgPool,
  type Runner,
} from "./connection/db.js";
import { examine } from "./doctor/doctor.js";
import type { Finding } from "./doctor/finding.js";
import type { InsertRunner } from "./jobs/insert-direct.js";
import { insertOperations } from "./jobs/insert.js";
import { laneKeeper } from "./jobs/lanes.js";
import { leaseOperations } from "./jobs/leases.js";
import { importOperation } from "./legacy/import.js";
import type { LegacyImport, LegacyImportOptions } from "./legacy/options.js";
import { Listener } from "./notify/listener.js";
import { migrate, pendingMigrations, undoMigrations, type UndoOptions } from "./schema/migrate.js";
import { Notifier, NOTIFY } from "./notify/notifier.js";
import { migrationScript, type ScriptOptions } from "./schema/migration-plan.js";
import { needsSnapshot, queryOperations } from "./jobs/queries.js";
import { queueOperations } from "./jobs/queues.js";
import { Recorder } from "./jobs/recorder.js";
import { readCursor } from "./jobs/transition-cursors.js";
import { transitionOperations } from "./jobs/transitions.js";
import { insideOf } from "./connection/savepoints.js";
import { scheduleOperations } from "./schedules.js";
import type { SchemaSettings } from "./schema/schema.js";
import { stepCalls, withParkTime } from "./step-calls.js";
import { storedOperations } from "./stored-operations.js";
import { sqlFor } from "./connection/sql.js";
import { tokenOperations } from "./tokens.js";
import { TypesIndex } from "./schema/types-index.js";
import { checkServer } from "./connection/server-check.js";
import { keyOperations } from "./jobs/unique-keys.js";
import { updateOperation } from "./jobs/update.js";
import { maintenanceOperations } from "./jobs/maintenance.js";
import { hideSecret } from "../../access/secret.js";
import { CounterRollup } from "./jobs/counter-rollup.js";
import { readUsers, type UsersOptions } from "./schema/users.js";

export interface PostgresOptions {
  /** Your own `pg` pool. Default: the store opens a pool for the URL. */
  pool?: PgPool;
  /** The schema of Holdfast's tables. Default `holdfast`. */
  schema?: string;
  /** Connections of the store's own pool, besides the one that listens. Default 4. */
  connections?: number;
  /** `false`: no LISTEN and NOTIFY; workers find jobs by polling. Default `true`. */
  notify?: boolean;
  /**
   * Address for LISTEN: the server itself, if the URL or your pool goes through a pooler in transaction mode. Default:
   * the URL, or a connection of your pool if it has more than one.
   */
  listenUrl?: string;
  /** Type of the column with a job's user: the type of your users' key, if jobs refer to them. Default `text`. */
  userType?: "text" | "uuid" | "bigint";
  /**
   * Your users' table, if jobs refer to it by a foreign key: deleting a user deletes their jobs and schedules, and a
   * job for an unknown user is rejected. The column's type must be `userType`.
   */
  users?: UsersOptions;
  /**
   * Roles for programs, and row-level security that shows users only their own jobs. Default: roles and privileges are
   * not changed.
   */
  access?: AccessOptions;
  clock?: Clock;
}

/** How to open a store, for error messages. */
export const USAGE = 'use postgres("postgres://…") or postgres({ pool })';

const POSTGRES_FIELDS: ReadonlySet<string> = optionKeys<PostgresOptions>({
  pool: true,
  schema: true,
  connections: true,
  notify: true,
  listenUrl: true,
  userType: true,
  users: true,
  access: true,
  clock: true,
});

/** The PostgreSQL store, with methods that other stores do not have. */
export interface PostgresStore extends Store {
  /** The SQL of `migrate`, to run with `psql` or a migration tool. It can run any number of times. */
  migrations(options?: ScriptOptions): string;
  /** For development: undoes migrations, and deletes what they stored. */
  undoMigrations(options: UndoOptions): Promise<void>;
  /**
   * Imports the rows of an old table as jobs, and optionally drops tables, in one transaction, with the old table
   * locked. Ids, times and errors are preserved. A running job is due immediately, as if its lease had expired. Rows
   * that were imported before are skipped.
   *
   * ```ts
   * await store.importLegacy({
   *   table: "email_processing_jobs",
   *   type: "email_processing",
   *   map: { id: "id", user: "user_id", status: "status", input: ["connection_id"], error: "error_message" },
   *   drop: true,
   * });
   * ```
   */
  importLegacy(options: LegacyImportOptions): Promise<LegacyImport>;
  /**
   * Checks server, schema and queues for problems that delay or endanger jobs, and reports what to do about each.
   * Checks that need more permissions are reported as findings. It creates a schema to compare with and rolls that
   * back, so do not call it every second.
   *
   * ```ts
   * for (const { level, check, found, advice } of await store.doctor()) console.log(level, check, found, advice);
   * ```
   */
  doctor(): Promise<Finding[]>;
}

/** Opens a store on a PostgreSQL database. Nothing is created before `migrate`. */
export function openPostgres(given: string | null, options: PostgresOptions = {}): PostgresStore {
  refuseUnknown(options, POSTGRES_FIELDS, "postgres");
  if (given !== null && !/^postgres(?:ql)?:/.test(given)) {
    throw new InvalidOptionError("url", `${show(hideSecrets(given))} is not a postgres:// address`);
  }
  if (given === null && options.pool === undefined) {
    throw new InvalidOptionError("pool", `is missing; ${USAGE}`);
  }
  const { url, schema: schemaInUrl } = given === null ? { url: null, schema: null } : readPostgresUrl(given);
  const clock = options.clock ?? systemClock;
  const schemaName = readSchemaName(options.schema ?? schemaInUrl ?? "holdfast");
  const userType = options.userType ?? "text";
  if (!["text", "uuid", "bigint"].includes(userType)) {
    throw new InvalidOptionError("userType", `${show(userType)} is none of "text", "uuid", "bigint"`);
  }
  if (options.pool !== undefined && typeof options.pool?.connect !== "function") {
    throw new InvalidOptionError("pool", "is not a pg pool; create it with new pg.Pool({ … })");
  }
  if (options.listenUrl !== undefined && !/^postgres(?:ql)?:/.test(options.listenUrl)) {
    throw new InvalidOptionError(
      "listenUrl",
      `${show(hideSecrets(String(options.listenUrl)))} is not a postgres:// address`,
    );
  }
  const connections = readCount(options.connections ?? 4, "connections", 1, 1_000);
  const where = url === null ? "your pool" : hideSecrets(url);
  const channel = `holdfast_${schemaName}`;
  const settings: SchemaSettings = {
    schema: `"${schemaName}"`,
    channel,
    userType,
    users: readUsers(options.users),
    access: readAccess(options.access, schemaName),
  };
  const self = randomUUID().slice(0, 8);
  const pool = options.pool === undefined ? lazyPool(url ?? "", connections) : options.pool;
  const db = new Db(pool, where, { owned: options.pool === undefined, onEnded: () => void listener.stop() });
  const sql = sqlFor(settings.schema, userType);
  const recorder = new Recorder(sql);
  const inserts = insertOperations(sql, recorder);
  const maintenance = maintenanceOperations(sql);
  const typesIndex = new TypesIndex(sql, db, maintenance);
  const claim = claimOperation(sql, typesIndex, recorder);
  const leases = leaseOperations(sql, recorder);
  const changes = changeOperations(sql);
  const update = updateOperation(sql);
  const keys = keyOperations(sql);
  const queries = queryOperations(sql);
  const queues = queueOperations(sql);
  const errorGroups = errorGroupOperations(sql);
  const history = historyOperations(sql);
  const transitions = transitionOperations(sql);
  const importLegacy = importOperation(sql, queries);
  const schedules = scheduleOperations(sql, inserts);
  const audit = auditOperations(sql);
  const tokens = tokenOperations(sql);
  const lanes = laneKeeper(sql, db);
  const rollup = new CounterRollup(() => maintenance.rollUp(db, time()));
  const time = (): number | null => (clock === systemClock ? null : clock.now());
  const listeners = new Set<(hint: Hint) => void>();
  const emit = (hints: readonly Hint[]): void => {
    for (const hint of hints) for (const listener of listeners) listener(hint);
  };
  const notifies = options.notify !== false;
  const notifier = new Notifier(db, channel, self);
  const listenUrl = options.listenUrl ?? url;
  // With one connection, a listener would leave none for queries.
  const listens = notifies && (listenUrl !== null || canSpareOne(pool));
  const listener = new Listener({
    connect: () => (listenUrl === null ? listenOn(pool) : listenAt(listenUrl)),
    notify: (payload) => db.run(NOTIFY, [channel, payload]),
    channel,
    self,
    clock: systemClock,
    onHints: emit,
    onWakes: () => steps.sweep(),
    onSilence: warnAboutPooler,
  });
  const transactions = new TransactionQueue();
  const pending = new Set<Promise<unknown>>();
  let closed = false;
  let closing: Promise<void> | null = null;
  let claimedAt = Number.NEGATIVE_INFINITY;

  /** Runs a call. `close` waits for it. */
  async function tracked<Result>(work: () => Promise<Result>): Promise<Result> {
    if (closed) throw new ClosedError("the store is closed", "open a new one");
    const call = work();
    pending.add(call);
    clock.waitFor?.(call);
    try {
      return await call;
    } finally {
      pending.delete(call);
    }
  }

  async function close(): Promise<void> {
    closed = true;
    listeners.clear();
    await listener.stop();
    await notifier.stop();
    await Promise.allSettled([...pending, typesIndex.stop(), rollup.stop()]);
    await db.end();
  }

  function hint(...hints: Hint[]): void {
    if (hints.length === 0) return;
    queueMicrotask(() => emit(hints));
    if (notifies && !closed) for (const each of hints) notifier.send(each);
  }

  /**
   * Hints for jobs that were enqueued here. If a worker of this process is about to claim, others are notified only of
   * what it leaves.
   */
  function hintOfJobs(hints: readonly Hint[]): void {
    const offers = notifies && !closed && performance.now() - claimedAt < WORKING_MS;
    const isDue = hints.some((each) => each.kind === "work" && each.inMs === 0);
    if (!offers || !isDue) return hint(...hints);
    queueMicrotask(() => emit(hints));
    notifier.offer();
  }

  const steps = stepCalls(sql, {
    db,
    where,
    time,
    tracked,
    leases,
    inserts,
    ensureLanes: (jobs) => lanes.ensure(jobs, time()),
    transactions,
    readTransaction,
    notifier: notifies ? notifier : null,
    hint,
    onInserted: (jobs) => hintOfJobs(insertHints(jobs, [], clock.now())),
  });

  const own: InsertRunner = {
    inside: false,
    run: (statement, values) => db.run(statement, values),
    isolated: (work) => work(own),
    atomic: (work) => db.transaction(work),
  };

  return {
    capabilities: {
      transactions: true,
      synchronous: false,
      strictOrder: true,
      push: listens,
      metered: false,
      exactCounts: true,
      together: false,
      orderedTransitions: true,
    },
    migrations: (script) => migrationScript(settings, script),
    migrate: () =>
      tracked(async () => {
        await checkServer(db, where);
        await migrate(db, settings);
      }),
    pendingMigrations: () =>
      tracked(async () => {
        await checkServer(db, where);
        return pendingMigrations(db, settings);
      }),
    undoMigrations: (undo) => tracked(() => undoMigrations(db, settings, undo)),
    importLegacy: (given) =>
      tracked(async () => {
        const result = await importLegacy(db, given, time());
        if (!result.dryRun && result.imported > 0) hint(WORK_NOW);
        return result;
      }),
    doctor: () =>
      tracked(() => {
        // The listener uses one of the caller's connections, or an additional one of the store's own.
        const maxConnections = options.pool === undefined ? connections + (notifies ? 1 : 0) : null;
        return examine(db, { settings, schema: schemaName, connections: maxConnections, clock, time });
      }),
    close: () => (closing ??= close()),

    insert: (jobs) =>
      tracked(async () => {
        if (jobs.length === 0) return [];
        const isLocked = await lanes.ensure(jobs, time());
        const results = await exceptLocked(jobs, isLocked, "busy", (free) => inserts.insert(own, free, time()));
        hintOfJobs(insertHints(jobs, results, clock.now()));
        return results;
      }),
    insertIn: (tx, jobs) =>
      tracked(async () => {
        const callers = readTransaction(tx);
        if (jobs.length === 0) return [];
        return transactions.run(callers, async () => {
          const runner = insideOf(callersRunner(callers, where));
          await lanes.ensureForTransaction(runner, jobs, time());
          const results = await inserts.insertInside(runner, jobs, time());
          // Jobs that are due later need no notification: workers poll for them.
          const isDue = insertHints(jobs, results, clock.now()).some((each) => each.kind === "work" && each.inMs === 0);
          if (notifies && isDue) await notifier.sendIn(runner, WORK_NOW);
          return results;
        });
      }),

    claim: (request) =>
      tracked(async () => {
        if (request.types !== null) await typesIndex.ensure();
        claimedAt = performance.now();
        const everything = request.queues === null && request.types === null;
        return notifier.whileClaiming(
          () => claim(db, request, time()),
          // nextDueAt is now: the byte limit cut the claim, or the lanes must be scanned from the start.
          ({ at, jobs, nextDueAt }) => everything && jobs.length < request.limit && nextDueAt !== at,
        );
      }),
    start: (marks) => tracked(async () => (marks.length === 0 ? [] : leases.start(db, marks, time()))),
    extend: (refs, leaseMs) => tracked(async () => (refs.length === 0 ? [] : leases.extend(db, refs, leaseMs, time()))),
    settle: (outcomes) =>
      tracked(async () => {
        if (outcomes.length === 0) return [];
        return steps.following(async (notes) => {
          const results = await leases.settle(db, outcomes, time(), notes);
          hint(...settleHints(outcomes.map((outcome) => withParkTime(outcome, clock.now()))));
          return results;
        });
      }),
    settleIn: (tx, outcome, note) =>
      tracked(async () => {
        const callers = readTransaction(tx);
        return transactions.run(callers, async () => {
          // The savepoint fails if no transaction is open. Without it, the job would be completed immediately.
          return insideOf(callersRunner(callers, where)).isolated(async (runner) => {
            const { result, notes } = await leases.settleIn(runner, outcome, note, time());
            if (notifies && result !== "lost") await notifier.sendIn(runner, { kind: "finished" });
            if (notifies && notes.length > 0) await notifier.sendWakesIn(runner);
            return result;
          });
        });
      }),
    note: (notes) => tracked(async () => (notes.length === 0 ? undefined : leases.note(db, notes, time()))),

    get: (id, scope) => tracked(() => queries.get(db, id, scope ?? {})),
    list: (filter, page) =>
      tracked(async () => {
        refuseForeignCursor(page);
        const read = (runner: Runner): ReturnType<typeof queries.list> => queries.list(runner, filter, page, time());
        const found = await (needsSnapshot(filter) ? db.snapshot(read) : read(db));
        rollup.trigger();
        return found;
      }),
    skip: (filter, page) =>
      tracked(async () => {
        refuseForeignCursor(page);
        return db.snapshot((runner) => queries.skip(runner, filter, page, time()));
      }),
    cancel: (ids, scope) =>
      tracked(async () => {
        const results = await steps.following((notes) => changes.cancel(db, ids, scope ?? {}, time(), notes));
        hint(...cancelHints(ids, results));
        return results;
      }),
    retry: (ids, scope) =>
      tracked(async () => {
        const results = await changes.retry(db, ids, scope ?? {}, time());
        hint(...retryHints(results));
        return results;
      }),
    update: (updates, scope) =>
      tracked(async () => {
        if (updates.length === 0) return [];
        const results = await update(db, updates, scope ?? {}, time());
        hint(...updateHints(updates, results, clock.now()));
        return results;
      }),
    remove: (ids, scope) => tracked(() => steps.following((notes) => changes.remove(db, ids, scope ?? {}, notes))),
    ...steps.calls,
    keyHolder: (key) => tracked(() => keys.holder(db, key, time())),
    freeKey: (key) => tracked(() => keys.free(db, key, time())),

    reapExpiredLeases: (limit) =>
      tracked(async () => {
        const reaped = await steps.following((notes) => maintenance.reapExpiredLeases(db, limit, time(), notes));
        hint(...reapHints(reaped));
        return reaped;
      }),
    expireOverdue: (limit) =>
      tracked(async () => {
        const reaped = await steps.following((notes) => maintenance.expireOverdue(db, limit, time(), notes));
        hint(...reapHints(reaped));
        return reaped;
      }),
    purge: (request) => tracked(() => steps.following((notes) => maintenance.purge(db, request, time(), notes))),
    purgeDue: (limit) => tracked(() => steps.following((notes) => maintenance.purgeDue(db, limit, time(), notes))),
    maintain: () => tracked(() => maintenance.maintain(db, time())),
    tryAcquireDuty: (name, everyMs) => tracked(() => maintenance.tryAcquireDuty(db, name, everyMs, time())),

    stats: () =>
      tracked(async () => {
        const stats = await queries.stats(db, time());
        rollup.trigger();
        return stats;
      }),
    pause: (queue, by = null) => tracked(() => queues.pause(db, queue, by, time())),
    resume: (queue) =>
      tracked(async () => {
        await queues.resume(db, queue);
        hint(WORK_NOW);
      }),
    queues: () => tracked(() => queues.queues(db)),
    countAhead: (before, atMost) => tracked(() => queues.countAhead(db, before, atMost, time())),

    recordErrors: (groups) => tracked(async () => (groups.length === 0 ? undefined : errorGroups.record(db, groups))),
    errorGroups: (limit) => tracked(() => errorGroups.list(db, limit)),
    purgeErrorGroups: (before) => tracked(() => errorGroups.purge(db, before)),
    putHistory: (records) => tracked(async () => (records.length === 0 ? undefined : history.put(db, records))),
    history: (range) => tracked(() => history.read(db, range)),
    mergeHistory: (merge) => tracked(() => history.merge(db, merge)),
    purgeHistory: (request) => tracked(() => history.purge(db, request)),
    recordTransitions: (forMs) => tracked(() => transitions.record(db, forMs, time())),
    transitions: (cursor, limit) =>
      tracked(async () => {
        const position = readCursor(cursor);
        if (position === null) throw new InvalidOptionError("cursor", "is not a cursor of this store's transitions");
        return transitions.page(db, position, limit, time());
      }),
    purgeTransitions: (request) => tracked(() => db.transaction((tx) => transitions.purge(tx, request, time()))),

    putSchedule: (schedule, version) =>
      tracked(async () => {
        const result = await schedules.put(db, schedule, version, time());
        hint(...scheduleHints(result));
        return result;
      }),
    getSchedule: (name) => tracked(() => schedules.get(db, name)),
    listSchedules: (filter, page) => tracked(() => schedules.list(db, filter, page)),
    removeSchedule: (name) =>
      tracked(async () => {
        const removed = await schedules.remove(db, name);
        hint(...scheduleHints(removed));
        return removed;
      }),
    dueSchedules: (limit) => tracked(() => schedules.due(db, limit, time())),
    fire: (firings) =>
      tracked(async () => {
        const jobs = firings.flatMap(({ slots }) => slots.flatMap(({ job }) => (job === null ? [] : [job])));
        const isLocked = await lanes.ensure(jobs, time());
        const hasLockedJob =
          isLocked && (({ slots }: Firing): boolean => slots.some(({ job }) => job !== null && isLocked(job)));
        const begin = <Result>(work: (runner: InsertRunner) => Promise<Result>): Promise<Result> =>
          db.transaction((runner) => work(insideOf(runner)));
        const results = await exceptLocked<Firing, FireResult>(
          firings,
          hasLockedJob,
          { status: "busy" },
          async (free) => {
            const fired: FireResult[] = [];
            for (const part of differentSchedules(free)) fired.push(...(await schedules.fire(begin, part, time())));
            return fired;
          },
        );
        hintOfJobs(fireHints(firings, results, clock.now()));
        return results;
      }),

    heartbeat: (worker) => tracked(() => queries.heartbeat(db, worker, time())),
    deregister: (id) => tracked(() => queries.deregister(db, id, time())),
    drainWorker: (id, draining) => tracked(() => queries.drainWorker(db, id, draining, time())),
    workers: () => tracked(() => queries.workers(db, time())),
    ...storedOperations(sql, { db, time, tracked }),

    audit: (entries) => tracked(async () => (entries.length === 0 ? undefined : audit.append(db, entries, time()))),
    listAudit: (filter, page) => tracked(() => audit.list(db, filter, page)),
    purgeAudit: (request) => tracked(() => audit.purge(db, request)),
    putToken: (token) => tracked(() => db.transaction((runner) => tokens.put(runner, token))),
    getToken: (id) => tracked(() => tokens.get(db, id)),
    listTokens: () => tracked(() => tokens.list(db)),
    removeToken: (id) => tracked(() => tokens.remove(db, id)),
    cursorKey: () => tracked(() => tokens.cursorKey(db)),

    listen(onHint) {
      if (listeners.size === 0 && listens) listener.start();
      listeners.add(onHint);
      return () => {
        if (listeners.delete(onHint) && listeners.size === 0) void listener.stop();
      };
    },
  };
}

// A process that claimed within this time is assumed to run a worker.
const WORKING_MS = 2_000;
const MAX_FIRINGS = 100;

/** Does the work for the items that are not locked, and returns `busy` for the others. */
async function exceptLocked<Item, Result>(
  items: readonly Item[],
  isLocked: ((item: Item) => boolean) | null,
  busy: Result,
  work: (items: readonly Item[]) => Promise<Result[]>,
): Promise<Result[]> {
  if (isLocked === null) return work(items);
  const free = items.filter((item) => !isLocked(item));
  const results = free.length === 0 ? [] : await work(free);
  return items.map((item) => (isLocked(item) ? busy : (results.shift() as Result)));
}

/** Splits firings, in order, so that each part has a schedule at most once. */
function differentSchedules(firings: readonly Firing[]): Firing[][] {
  const parts: Firing[][] = [];
  let names = new Set<string>();
  for (const firing of firings) {
    if (parts.length === 0 || names.has(firing.name) || names.size >= MAX_FIRINGS) {
      parts.push([]);
      names = new Set();
    }
    names.add(firing.name);
    parts.at(-1)?.push(firing);
  }
  return parts;
}

function readTransaction(tx: unknown): CallersTransaction {
  const given = tx as Partial<CallersTransaction> | null;
  if (typeof given !== "object" || given === null || typeof given.query !== "function") {
    throw new InvalidOptionError(
      "tx",
      "has no query(text, values); pass the pg client with the open transaction, or an adapter",
    );
  }
  return given as CallersTransaction;
}

/** An invalid URL may contain a password, and errors are logged. */
function hideSecrets(url: string): string {
  return hideSecret(url)
    .replace(/^(\w+:)?(?:\/\/)?.*@/s, "$1//…@")
    .replace(/\?.*$/s, "");
}

function warnAboutPooler(): void {
  process.emitWarning(
    "LISTEN receives no notifications: the connection goes through a pooler in transaction mode. Jobs are found by polling. " +
      "Set listenUrl to the address of the server itself, or set notify: false",
    { type: "HoldfastWarning", code: "NO_NOTIFICATIONS" },
  );
}
