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
  WORK_NOW,
} from "../hints.js";
import { refuseForeignCursor } from "../list-plan.js";
import { optionKeys, readCount, refuseUnknown, show } from "../../options.js";
import type { FireResult, Firing, Hint, Store } from "../../store.js";
import { readAccess, type AccessOptions } from "./schema/access.js";
import { readPostgresUrl, readSchemaName } from "./connection/address.js";
import { auditOperations } from "./audit.js";
import { changeOperations } from "./jobs/changes.js";
import { claimOperation } from "./jobs/claim.js";
import { canSpareOne, lazyPool, listenAt, listenOn } from "./connection/connections.js";
import { callersRunner, Db, Turns, type CallersTransaction, type PgPool } from "./connection/db.js";
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
import { queryOperations } from "./jobs/queries.js";
import { insideOf } from "./connection/savepoints.js";
import { scheduleOperations } from "./schedules.js";
import type { SchemaSettings } from "./schema/schema.js";
import { sqlFor } from "./connection/sql.js";
import { tokenOperations } from "./tokens.js";
import { TypesIndex } from "./schema/types-index.js";
import { refuseUnfit } from "./connection/server-check.js";
import { upkeepOperations } from "./jobs/maintenance.js";
import { hideSecret } from "../../access/secret.js";
import { Folding } from "./jobs/counter-rollup.js";
import { readUsers, type UsersOptions } from "./schema/users.js";

export interface PostgresOptions {
  /** Your own `pg` pool. Left out: a pool of our own for the URL. */
  pool?: PgPool;
  /** The schema with Holdfast's tables. Default `holdfast`. */
  schema?: string;
  /** Connections of our own pool, besides the one that listens. Default 4. */
  connections?: number;
  /** `false`: nobody is woken by LISTEN and NOTIFY, and workers find jobs by polling. */
  notify?: boolean;
  /**
   * Where to LISTEN, if not at the URL or on your pool: PostgreSQL itself, where those go through a pooler in transaction
   * mode. A pool of a single connection is not listened on.
   */
  listenUrl?: string;
  /** Type of your users' key, if jobs shall refer to users. Default `text`. */
  userType?: "text" | "uuid" | "bigint";
  /**
   * The table of your users, if jobs shall refer to it: jobs and schedules of a user who is deleted go with the user, and
   * none can be made for a user who is not there. The column's type must be `userType`.
   */
  users?: UsersOptions;
  /** Roles for programs, and row-level security by which users see only their own jobs. Left out: as the database is. */
  access?: AccessOptions;
  clock?: Clock;
}

/** How a store is opened. */
export const WAYS = 'use postgres("postgres://…") or postgres({ pool })';

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

/** The PostgreSQL store, and what only it can do. */
export interface PostgresStore extends Store {
  /**
   * The SQL of `migrate`, for those who run it by other means: `psql`, or a migration tool. Run again, it changes
   * nothing.
   */
  migrations(options?: ScriptOptions): string;
  /** For development: takes migrations back, and with them what they stored. */
  undoMigrations(options: UndoOptions): Promise<void>;
  /**
   * Makes jobs of the rows of an old table, and drops tables that are no longer needed: all of it or nothing, in one
   * transaction, with the old table locked. Ids, times and errors are kept. What was running is due at once and counts
   * as a lost lease. Rows that were imported before are skipped.
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
   * Looks for what holds jobs up or endangers them, in server, schema and queues, and says what to do about each thing.
   * What this role may not look at is a finding, not an error. It makes a schema to compare with and takes it back, so
   * it is made to be asked now and then, not every second.
   *
   * ```ts
   * for (const { level, check, found, advice } of await store.doctor()) console.log(level, check, found, advice);
   * ```
   */
  doctor(): Promise<Finding[]>;
}

/** Opens a store on a PostgreSQL database. Nothing is touched before `migrate`. */
export function openPostgres(given: string | null, options: PostgresOptions = {}): PostgresStore {
  refuseUnknown(options, POSTGRES_FIELDS, "postgres");
  if (given !== null && !/^postgres(?:ql)?:/.test(given)) {
    throw new InvalidOptionError("url", `${show(hideSecrets(given))} is no postgres:// address`);
  }
  if (given === null && options.pool === undefined) {
    throw new InvalidOptionError("pool", `is missing; ${WAYS}`);
  }
  const { url, schema: schemaInUrl } = given === null ? { url: null, schema: null } : readPostgresUrl(given);
  const clock = options.clock ?? systemClock;
  const schemaName = readSchemaName(options.schema ?? schemaInUrl ?? "holdfast");
  const userType = options.userType ?? "text";
  if (!["text", "uuid", "bigint"].includes(userType)) {
    throw new InvalidOptionError("userType", `${show(userType)} is none of "text", "uuid", "bigint"`);
  }
  if (options.pool !== undefined && typeof options.pool?.connect !== "function") {
    throw new InvalidOptionError("pool", "is not a pool of pg; make it with new pg.Pool({ … })");
  }
  if (options.listenUrl !== undefined && !/^postgres(?:ql)?:/.test(options.listenUrl)) {
    throw new InvalidOptionError(
      "listenUrl",
      `${show(hideSecrets(String(options.listenUrl)))} is no postgres:// address`,
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
  const inserts = insertOperations(sql);
  const upkeep = upkeepOperations(sql);
  const typesIndex = new TypesIndex(sql, db, upkeep);
  const claim = claimOperation(sql, typesIndex);
  const leases = leaseOperations(sql);
  const changes = changeOperations(sql);
  const queries = queryOperations(sql);
  const importLegacy = importOperation(sql, queries);
  const schedules = scheduleOperations(sql, inserts);
  const audit = auditOperations(sql);
  const tokens = tokenOperations(sql);
  const lanes = laneKeeper(sql, db);
  const folding = new Folding(() => upkeep.fold(db, time()));
  const time = (): number | null => (clock === systemClock ? null : clock.now());
  const listeners = new Set<(hint: Hint) => void>();
  const tell = (hints: readonly Hint[]): void => {
    for (const hint of hints) for (const listener of listeners) listener(hint);
  };
  const notifies = options.notify !== false;
  const notifier = new Notifier(db, channel, self);
  const listenUrl = options.listenUrl ?? url;
  // A listener on the last connection would deregister none to work with.
  const listens = notifies && (listenUrl !== null || canSpareOne(pool));
  const listener = new Listener({
    connect: () => (listenUrl === null ? listenOn(pool) : listenAt(listenUrl)),
    say: (payload) => db.run(NOTIFY, [channel, payload]),
    channel,
    self,
    clock: systemClock,
    onHints: tell,
    onDeaf: warnOfPooler,
  });
  const turns = new Turns();
  const pending = new Set<Promise<unknown>>();
  let closed = false;
  let closing: Promise<void> | null = null;
  let claimedAt = Number.NEGATIVE_INFINITY;

  /** A call under way: closing waits for it. */
  async function under<Answer>(work: () => Promise<Answer>): Promise<Answer> {
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
    await Promise.allSettled([...pending, typesIndex.stop(), folding.stop()]);
    await db.end();
  }

  function hint(...hints: Hint[]): void {
    if (hints.length === 0) return;
    queueMicrotask(() => tell(hints));
    if (notifies && !closed) for (const each of hints) notifier.send(each);
  }

  /** Hints of jobs that were enqueued here. Where a worker of this process looks first, others hear of what it leaves. */
  function hintOfJobs(hints: readonly Hint[]): void {
    const offers = notifies && !closed && performance.now() - claimedAt < WORKING_MS;
    const isDue = hints.some((each) => each.kind === "work" && each.inMs === 0);
    if (!offers || !isDue) return hint(...hints);
    queueMicrotask(() => tell(hints));
    notifier.offer();
  }

  const own: InsertRunner = {
    inside: false,
    run: (statement, values) => db.run(statement, values),
    apart: (work) => work(own),
    together: (work) => db.transaction(work),
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
    },
    migrations: (script) => migrationScript(settings, script),
    migrate: () =>
      under(async () => {
        await refuseUnfit(db, where);
        await migrate(db, settings);
      }),
    pendingMigrations: () =>
      under(async () => {
        await refuseUnfit(db, where);
        return pendingMigrations(db, settings);
      }),
    undoMigrations: (undo) => under(() => undoMigrations(db, settings, undo)),
    importLegacy: (given) =>
      under(async () => {
        const answer = await importLegacy(db, given, time());
        if (!answer.dryRun && answer.imported > 0) hint(WORK_NOW);
        return answer;
      }),
    doctor: () =>
      under(() => {
        // Of the caller's pool one connection listens; of ours, one besides.
        const most = options.pool === undefined ? connections + (notifies ? 1 : 0) : null;
        return examine(db, { settings, schema: schemaName, connections: most, clock, time });
      }),
    close: () => (closing ??= close()),

    insert: (jobs) =>
      under(async () => {
        if (jobs.length === 0) return [];
        const isLocked = await lanes.ensure(jobs, time());
        const answers = await sparing(jobs, isLocked, "busy", (free) => inserts.insert(own, free, time()));
        hintOfJobs(insertHints(jobs, answers, clock.now()));
        return answers;
      }),
    insertIn: (tx, jobs) =>
      under(async () => {
        const callers = readTransaction(tx);
        return turns.take(callers, async () => {
          const runner = insideOf(callersRunner(callers, where));
          await lanes.ensureBeside(runner, jobs, time());
          const answers = await inserts.insertInside(runner, jobs, time());
          // What is due later is found then.
          const isDue = insertHints(jobs, answers, clock.now()).some((each) => each.kind === "work" && each.inMs === 0);
          if (notifies && isDue) await notifier.sendIn(runner, WORK_NOW);
          return answers;
        });
      }),

    claim: (request) =>
      under(async () => {
        if (request.types !== null) await typesIndex.ensure();
        claimedAt = performance.now();
        const everything = request.queues === null && request.types === null;
        return notifier.whileClaiming(
          () => claim(db, request, time()),
          // One that knows of more that is due was cut for want of room, or has yet to look from the start.
          ({ at, jobs, nextDueAt }) => everything && jobs.length < request.limit && nextDueAt !== at,
        );
      }),
    start: (marks) => under(async () => (marks.length === 0 ? [] : leases.start(db, marks, time()))),
    extend: (refs, leaseMs) => under(async () => (refs.length === 0 ? [] : leases.extend(db, refs, leaseMs, time()))),
    settle: (outcomes) =>
      under(async () => {
        if (outcomes.length === 0) return [];
        const answers = await leases.settle(db, outcomes, time());
        hint(...settleHints(outcomes));
        return answers;
      }),
    settleIn: (tx, outcome, note) =>
      under(async () => {
        const callers = readTransaction(tx);
        return turns.take(callers, async () => {
          // In a savepoint, also to know that a transaction is open: without one the job would be complete for good.
          return insideOf(callersRunner(callers, where)).apart(async (runner) => {
            const answer = await leases.settleIn(runner, outcome, note, time());
            if (notifies && answer !== "lost") await notifier.sendIn(runner, { kind: "finished" });
            return answer;
          });
        });
      }),
    note: (notes) => under(async () => (notes.length === 0 ? undefined : leases.note(db, notes, time()))),

    get: (id, scope) => under(() => queries.get(db, id, scope ?? {})),
    list: (filter, page) =>
      under(async () => {
        refuseForeignCursor(page);
        const found = await db.snapshot((runner) => queries.list(runner, filter, page, time()));
        folding.soon();
        return found;
      }),
    skip: (filter, page) =>
      under(async () => {
        refuseForeignCursor(page);
        return db.snapshot((runner) => queries.skip(runner, filter, page, time()));
      }),
    cancel: (ids, scope) =>
      under(async () => {
        const answers = await changes.cancel(db, ids, scope ?? {}, time());
        hint(...cancelHints(ids, answers));
        return answers;
      }),
    retry: (ids, scope) =>
      under(async () => {
        const answers = await changes.retry(db, ids, scope ?? {}, time());
        hint(...retryHints(answers));
        return answers;
      }),
    remove: (ids, scope) => under(() => changes.remove(db, ids, scope ?? {})),

    reapExpiredLeases: (limit) =>
      under(async () => {
        const laidDown = await upkeep.reapExpiredLeases(db, limit, time());
        hint(...reapHints(laidDown));
        return laidDown;
      }),
    expireOverdue: (limit) =>
      under(async () => {
        const laidDown = await upkeep.expireOverdue(db, limit, time());
        hint(...reapHints(laidDown));
        return laidDown;
      }),
    purge: (request) => under(() => upkeep.purge(db, request, time())),
    maintain: () => under(() => upkeep.tidy(db, time())),
    tryAcquireDuty: (name, everyMs) => under(() => upkeep.tryAcquireDuty(db, name, everyMs, time())),

    stats: () =>
      under(async () => {
        const stats = await queries.stats(db, time());
        folding.soon();
        return stats;
      }),
    pause: (queue) => under(() => queries.setPaused(db, queue, true, time())),
    resume: (queue) =>
      under(async () => {
        await queries.setPaused(db, queue, false, time());
        hint(WORK_NOW);
      }),
    queues: () => under(() => queries.queues(db)),

    putSchedule: (schedule, version) =>
      under(async () => {
        const answer = await schedules.put(db, schedule, version, time());
        hint(...scheduleHints(answer));
        return answer;
      }),
    getSchedule: (name) => under(() => schedules.get(db, name)),
    listSchedules: (filter, page) => under(() => schedules.list(db, filter, page)),
    removeSchedule: (name) =>
      under(async () => {
        const removed = await schedules.remove(db, name);
        hint(...scheduleHints(removed));
        return removed;
      }),
    dueSchedules: (limit) => under(() => schedules.due(db, limit, time())),
    fire: (firings) =>
      under(async () => {
        const jobs = firings.flatMap(({ slots }) => slots.flatMap(({ job }) => (job === null ? [] : [job])));
        const isLocked = await lanes.ensure(jobs, time());
        const waits =
          isLocked && (({ slots }: Firing): boolean => slots.some(({ job }) => job !== null && isLocked(job)));
        const begin = <Answer>(work: (runner: InsertRunner) => Promise<Answer>): Promise<Answer> =>
          db.transaction((runner) => work(insideOf(runner)));
        const answers = await sparing<Firing, FireResult>(firings, waits, { status: "busy" }, async (free) => {
          const fired: FireResult[] = [];
          for (const part of differentSchedules(free)) fired.push(...(await schedules.fire(begin, part, time())));
          return fired;
        });
        hintOfJobs(fireHints(firings, answers, clock.now()));
        return answers;
      }),

    heartbeat: (worker) => under(() => queries.heartbeat(db, worker, time())),
    deregister: (id) => under(() => queries.deregister(db, id, time())),
    workers: () => under(() => queries.workers(db, time())),

    audit: (entries) => under(async () => (entries.length === 0 ? undefined : audit.append(db, entries, time()))),
    listAudit: (filter, page) => under(() => audit.list(db, filter, page)),
    purgeAudit: (request) => under(() => audit.purge(db, request)),
    putToken: (token) => under(() => db.transaction((runner) => tokens.put(runner, token))),
    getToken: (id) => under(() => tokens.get(db, id)),
    listTokens: () => under(() => tokens.list(db)),
    removeToken: (id) => under(() => tokens.remove(db, id)),
    cursorKey: () => under(() => tokens.cursorKey(db)),

    listen(heard) {
      if (listeners.size === 0 && listens) listener.start();
      listeners.add(heard);
      return () => {
        if (listeners.delete(heard) && listeners.size === 0) void listener.stop();
      };
    },
  };
}

// A process that has claimed this lately runs a worker.
const WORKING_MS = 2_000;
const FIRED_TOGETHER = 100;

/** Does the work for those that need not wait for others; the rest is answered `busy`. */
async function sparing<Item, Answer>(
  items: readonly Item[],
  waits: ((item: Item) => boolean) | null,
  busy: Answer,
  work: (items: readonly Item[]) => Promise<Answer[]>,
): Promise<Answer[]> {
  if (waits === null) return work(items);
  const free = items.filter((item) => !waits(item));
  const answers = free.length === 0 ? [] : await work(free);
  return items.map((item) => (waits(item) ? busy : (answers.shift() as Answer)));
}

/** In their order; of the same schedule one in each part. */
function differentSchedules(firings: readonly Firing[]): Firing[][] {
  const parts: Firing[][] = [];
  let names = new Set<string>();
  for (const firing of firings) {
    if (parts.length === 0 || names.has(firing.name) || names.size >= FIRED_TOGETHER) {
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
      "has no query(text, values); pass the pg client whose transaction is open, or an adapter",
    );
  }
  return given as CallersTransaction;
}

/** A mistyped URL may carry a password, and errors end up in logs. */
function hideSecrets(url: string): string {
  return hideSecret(url)
    .replace(/^(\w+:)?(?:\/\/)?.*@/s, "$1//…@")
    .replace(/\?.*$/s, "");
}

function warnOfPooler(): void {
  process.emitWarning(
    "a connection that listens to PostgreSQL hears nothing: it goes through a pooler in transaction mode. " +
      "Jobs are found by polling. Give PostgreSQL's own address as listenUrl, or set notify: false",
    { type: "HoldfastWarning", code: "NOT_HEARD" },
  );
}
