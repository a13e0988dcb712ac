import type { Database } from "better-sqlite3";
import type * as S from "../../../store.js";
import { auditOperations } from "../audit.js";
import { errorGroupOperations } from "../error-groups.js";
import { historyOperations } from "../history-records.js";
import { changeOperations } from "./changes.js";
import { claimOperation, packClaimed } from "./claim.js";
import type { Columns } from "../thread/columns.js";
import { Counts } from "./counts.js";
import { historyStatements } from "./history.js";
import { insertOperation } from "./insert.js";
import { keyStatements } from "./unique-keys.js";
import { laneStatements } from "./lanes.js";
import { LeaseCache } from "./lease-cache.js";
import { leaseOperations, packOutcomes, unpackOutcomes } from "./leases.js";
import { queryOperations } from "./queries.js";
import { scheduleOperations } from "../schedules.js";
import { storedOperations } from "../stored-operations.js";
import { tokenOperations } from "../tokens.js";
import { maintenanceOperations, type ReapPosition } from "./maintenance.js";
import { stepOperations } from "./steps.js";
import { waitStatements } from "./waits.js";
import { Transitions, type PackedPage } from "./transitions.js";

/** All operations of the store's connection. Their arguments and results can cross between threads. */
export interface Operations {
  insert(now: number, jobs: readonly S.NewJob[]): S.InsertResult[];
  claim(now: number, request: S.ClaimRequest): ClaimedRows;
  start(now: number, marks: readonly S.StartMark[]): S.LeaseResult[];
  extend(now: number, leases: readonly S.LeaseRef[], leaseMs: number): S.LeaseResult[];
  settle(now: number, outcomes: Columns): S.SettleResult[];
  note(now: number, notes: readonly S.Note[]): void;
  steps(now: number, job: string): S.JobSteps;
  saveSteps(now: number, writes: readonly S.StepWrite[]): S.StepResult[];
  openChildren(now: number, jobs: readonly string[], limit: number): string[];
  emit(now: number, event: S.NewEvent, limit: number): S.EmitResult & { done: boolean };
  purgeEvents(now: number, limit: number): number;
  repairWaits(now: number, limit: number): number;
  get(now: number, id: string, scope: S.Scope): S.StoredJob | null;
  list(now: number, filter: S.JobFilter, page: S.PageRequest): S.JobPage;
  skip(now: number, filter: S.JobFilter, page: S.PageRequest): S.Skipped;
  cancel(now: number, ids: readonly string[], scope: S.ChangeScope): S.CancelResult[];
  retry(now: number, ids: readonly string[], scope: S.ChangeScope): S.RetryResult[];
  update(now: number, updates: readonly S.JobUpdate[], scope: S.ChangeScope): S.UpdateResult[];
  remove(now: number, ids: readonly string[], scope: S.ChangeScope): S.RemoveResult[];
  keyHolder(now: number, key: string): S.KeyHolder | null;
  freeKey(now: number, key: string): S.FreeKeyResult;
  reapExpiredLeases(
    now: number,
    limit: number,
    from: ReapPosition | null,
  ): { reaped: S.ReapedJob[]; next: ReapPosition | null };
  expireOverdue(now: number, limit: number): S.ReapedJob[];
  purge(now: number, request: S.PurgeRequest): number;
  purgeDue(now: number, limit: number): number;
  maintain(now: number, wasClockSetBack: boolean): void;
  tryAcquireDuty(now: number, name: string, everyMs: number): boolean;
  stats(now: number): S.StoreStats;
  pause(now: number, queue: string, by: string | null): void;
  resume(now: number, queue: string): void;
  queues(now: number): S.QueueRecord[];
  countAhead(now: number, before: S.QueuePosition, atMost: number): number;
  recordErrors(now: number, groups: readonly S.ErrorGroupRecord[]): void;
  errorGroups(now: number, limit: number): S.ErrorGroupRecord[];
  purgeErrorGroups(now: number, before: number): number;
  putHistory(now: number, records: readonly S.HistoryRecord[]): void;
  history(now: number, range: S.HistoryRange): S.HistoryPage;
  mergeHistory(now: number, merge: S.HistoryMerge): boolean;
  purgeHistory(now: number, request: { resolution: S.HistoryResolution; before: number; limit: number }): number;
  recordTransitions(now: number, forMs: number): string;
  transitions(now: number, cursor: { epoch: number; number: number }, limit: number): PackedPage | null;
  purgeTransitions(now: number, request: { before: number; limit: number }): number;
  putSchedule(now: number, schedule: S.ScheduleRecord, version: string | null): S.PutResult;
  getSchedule(now: number, name: string): S.StoredSchedule | null;
  listSchedules(now: number, filter: S.ScheduleFilter, page: { limit: number; cursor: string | null }): S.SchedulePage;
  removeSchedule(now: number, name: string): boolean;
  dueSchedules(now: number, limit: number): S.DueSchedules;
  fire(now: number, firings: readonly S.Firing[]): S.FireResult[];
  heartbeat(now: number, worker: S.WorkerRecord): S.HeartbeatResult;
  drainWorker(now: number, id: string, draining: boolean): boolean;
  deregister(now: number, id: string): void;
  workers(now: number): S.StoredWorker[];
  putOperation(now: number, operation: S.OperationRecord, lease: S.OperationLease): void;
  claimOperation(now: number, lease: S.OperationLease): S.ClaimedOperation | null;
  saveOperation(now: number, progress: S.OperationProgress): S.SaveOperationResult;
  endOperation(now: number, end: S.OperationEnd): boolean;
  stopOperation(now: number, id: string): boolean;
  getOperation(now: number, id: string): S.StoredOperation | null;
  operations(now: number): S.StoredOperation[];
  purgeOperations(now: number, request: { before: number; keep: number }): number;
  audit(now: number, entries: readonly S.AuditEntry[]): void;
  listAudit(now: number, filter: S.AuditFilter, page: { limit: number; cursor: string | null }): S.AuditPage;
  purgeAudit(now: number, request: { before: number; limit: number }): number;
  putToken(now: number, token: S.TokenRecord): S.PutTokenResult;
  getToken(now: number, id: string): S.TokenRecord | null;
  listTokens(now: number): S.TokenRecord[];
  removeToken(now: number, id: string): boolean;
  cursorKey(now: number): string;
}
export interface ClaimedRows {
  at: number;
  rows: Columns;
  nextDueAt: number | null;
}
export type OperationName = keyof Operations;

/** Operations that only read. They need no write lock. */
export const READS: ReadonlySet<OperationName> = new Set<OperationName>([
  "get",
  "list",
  "skip",
  "steps",
  "openChildren",
  "keyHolder",
  "stats",
  "queues",
  "workers",
  "getOperation",
  "operations",
  "getSchedule",
  "listSchedules",
  "dueSchedules",
  "listAudit",
  "getToken",
  "listTokens",
  "cursorKey",
  "countAhead",
  "errorGroups",
  "history",
  "transitions",
]);

/** Calls of workers: they claim jobs, or concern a lease that the worker holds. */
export const LEASE_CALLS: ReadonlySet<OperationName> = new Set<OperationName>([
  "claim",
  "start",
  "extend",
  "settle",
  "note",
  "saveSteps",
]);

/** The operations with their prepared statements, on one connection. */
export interface PreparedStore {
  operations: Operations;
  counts: Counts;
  readonly isLeaseHeld: (lease: S.LeaseRef) => boolean;
  /** The result of a claim that would find nothing, else null. Takes no write lock. */
  emptyClaim(request: S.ClaimRequest, now: number): ClaimedRows | null;
  /** How many parked jobs were woken since the last call. */
  takeWoken(): number;
  /** Leased jobs with a cancel request. */
  cancelRequested(): string[];
  /** When the next schedule runs. If it differs from before, schedules have changed. */
  nextScheduleAt(): number | null;
}

/** Operations on the caller's own connection, inside the caller's transaction. */
export interface TransactionOperations {
  insert(now: number, jobs: readonly S.NewJob[]): S.InsertResult[];
  settle(now: number, outcome: S.Outcome, note: S.Note | null): S.SettleResult;
  saveStep(now: number, write: S.StepWrite): S.StepResult;
  emit(now: number, event: S.NewEvent): S.EmitResult;
}

// Waits that end inside a caller's transaction. `repairWaits` ends what is left.
const MAX_WAITS_IN_TRANSACTION = 10_000;

export function transactionOperationsOn(db: Database): TransactionOperations {
  const { operations, counts, isLeaseHeld } = prepareStore(db);
  function withCounts<Result>(now: number, work: () => Result): Result {
    try {
      const result = work();
      counts.write(now);
      return result;
    } finally {
      counts.discard();
    }
  }
  return {
    insert: (now, jobs) => withCounts(now, () => operations.insert(now, jobs)),
    settle: (now, outcome, note) =>
      withCounts(now, () => {
        if (!isLeaseHeld(outcome)) return "lost";
        if (note !== null) operations.note(now, [note]);
        return operations.settle(now, packOutcomes([outcome]))[0] ?? "lost";
      }),
    saveStep: (now, write) => withCounts(now, () => operations.saveSteps(now, [write])[0] ?? { status: "lost" }),
    emit(now, event) {
      const { first } = operations.emit(now, event, MAX_WAITS_IN_TRANSACTION);
      return { first };
    },
  };
}

/** Prepares every statement on a connection: the store's own, or that of a caller's transaction. */
export function prepareStore(db: Database): PreparedStore {
  const transitions = new Transitions(db);
  const counts = new Counts(db, transitions);
  const keys = keyStatements(db);
  const lanes = laneStatements(db);
  const history = historyStatements(db);
  const leased = new LeaseCache();
  const waits = waitStatements(db);
  const insert = insertOperation(db, counts, keys);
  const steps = stepOperations(db, waits, insert);
  const claim = claimOperation(db, counts, lanes, history, leased);
  const changes = changeOperations(db, counts, keys, history, waits);
  const leases = leaseOperations(db, counts, history, leased, changes, { steps, waits });
  const maintenance = maintenanceOperations(db, counts, keys, lanes, history, changes, waits);
  const queries = queryOperations(db, lanes, history);
  const schedules = scheduleOperations(db, insert);
  const audit = auditOperations(db);
  const tokens = tokenOperations(db);
  const bulk = storedOperations(db);
  const errorGroups = errorGroupOperations(db);
  const countHistory = historyOperations(db);
  const cursorKey = db.prepare("SELECT value FROM holdfast_settings WHERE name = 'cursorKey'").pluck();
  const cancelRequested = db
    .prepare("SELECT id FROM holdfast_jobs WHERE cancel_at IS NOT NULL AND due_at IS NOT NULL LIMIT 1000")
    .pluck();

  return {
    counts,
    isLeaseHeld: (lease) => leases.isLeaseHeld(lease),
    emptyClaim(request, now) {
      const empty = claim.emptyClaim(request, now);
      return empty === null ? null : { at: now, rows: packClaimed(empty.rows), nextDueAt: empty.nextDueAt };
    },
    takeWoken: () => waits.takeWoken(),
    nextScheduleAt: () => schedules.nextAt(),
    cancelRequested: () => cancelRequested.all() as string[],
    operations: {
      insert: (now, jobs) => insert(jobs, now),
      claim(now, request) {
        const { rows, nextDueAt } = claim.claim(request, now);
        return { at: now, rows: packClaimed(rows), nextDueAt };
      },
      start: (now, marks) => leases.start(marks, now),
      extend: (now, refs, leaseMs) => leases.extend(refs, leaseMs, now),
      settle: (now, outcomes) => leases.settle(unpackOutcomes(outcomes), now),
      note: (now, notes) => leases.note(notes, now),
      steps: (_now, job) => steps.read(job),
      saveSteps: (now, writes) => steps.save(writes, now),
      openChildren: (_now, jobs, limit) => steps.openChildren(jobs, limit),
      emit: (now, event, limit) => steps.emit(event, limit, now),
      purgeEvents: (now, limit) => steps.purgeEvents(limit, now),
      repairWaits: (now, limit) => waits.repair(limit, now),
      get: (_now, id, scope) => queries.get(id, scope),
      list: (now, filter, page) => queries.list(filter, page, now),
      skip: (now, filter, page) => queries.skip(filter, page, now),
      cancel: (now, ids, scope) => changes.cancel(ids, scope, now),
      retry: (now, ids, scope) => changes.retry(ids, scope, now),
      update: (now, updates, scope) => changes.update(updates, scope, now),
      remove: (now, ids, scope) => changes.remove(ids, scope, now),
      keyHolder: (now, key) => changes.keyHolder(key, now),
      freeKey: (now, key) => changes.freeKey(key, now),
      reapExpiredLeases: (now, limit, from) => maintenance.reapExpiredLeases(limit, from, now),
      expireOverdue: (now, limit) => maintenance.expireOverdue(limit, now),
      purge: (now, request) => maintenance.purge(request, now),
      purgeDue: (now, limit) => maintenance.purgeDue(limit, now),
      maintain: (now, wasClockSetBack) => maintenance.maintain(wasClockSetBack, now),
      tryAcquireDuty: (now, name, everyMs) => maintenance.tryAcquireDuty(name, everyMs, now),
      stats: (now) => queries.stats(now),
      pause: (now, queue, by) => lanes.pause(queue, by, now),
      resume: (_now, queue) => lanes.resume(queue),
      queues: () => lanes.queues(),
      countAhead: (now, before, atMost) => lanes.countAhead(before, atMost, now),
      recordErrors: (_now, groups) => errorGroups.record(groups),
      errorGroups: (_now, limit) => errorGroups.list(limit),
      purgeErrorGroups: (_now, before) => errorGroups.purge(before),
      putHistory: (_now, records) => countHistory.put(records),
      history: (_now, range) => countHistory.read(range),
      mergeHistory: (_now, merge) => countHistory.merge(merge),
      purgeHistory: (_now, request) => countHistory.purge(request),
      recordTransitions: (now, forMs) => transitions.record(forMs, now),
      transitions: (now, cursor, limit) => transitions.page(cursor, limit, now),
      purgeTransitions: (now, { before, limit }) => transitions.purge(before, limit, now),
      putSchedule: (now, schedule, version) => schedules.put(schedule, version, now),
      getSchedule: (_now, name) => schedules.get(name),
      listSchedules: (_now, filter, page) => schedules.list(filter, page),
      removeSchedule: (_now, name) => schedules.remove(name),
      dueSchedules: (now, limit) => schedules.due(limit, now),
      fire: (now, firings) => schedules.fire(firings, now),
      heartbeat: (now, worker) => queries.heartbeat(worker, now),
      deregister: (now, id) => queries.deregister(id, now),
      drainWorker: (now, id, draining) => queries.drainWorker(id, draining, now),
      workers: (now) => queries.workers(now),
      putOperation: (now, operation, lease) => bulk.put(operation, lease, now),
      claimOperation: (now, lease) => bulk.claim(lease, now),
      saveOperation: (now, progress) => bulk.save(progress, now),
      endOperation: (now, end) => bulk.end(end, now),
      stopOperation: (_now, id) => bulk.stop(id),
      getOperation: (now, id) => bulk.get(id, now),
      operations: (now) => bulk.list(now),
      purgeOperations: (_now, request) => bulk.purge(request),
      audit: (now, entries) => audit.append(entries, now),
      listAudit: (_now, filter, page) => audit.list(filter, page),
      purgeAudit: (_now, request) => audit.purge(request),
      putToken: (_now, token) => tokens.put(token),
      getToken: (_now, id) => tokens.get(id),
      listTokens: () => tokens.list(),
      removeToken: (_now, id) => tokens.remove(id),
      cursorKey: () => cursorKey.get() as string,
    },
  };
}
