import type { Hint, NewJob, Outcome, Store } from "../../store.js";
import { WORK_NOW } from "../hints.js";
import { callersRunner, type CallersTransaction, type Db, type TransactionQueue } from "./connection/db.js";
import { insideOf } from "./connection/savepoints.js";
import type { Sql } from "./connection/sql.js";
import { eventOperations } from "./jobs/events.js";
import type { InsertOperations } from "./jobs/insert.js";
import type { LeaseOperations } from "./jobs/leases.js";
import { stepOperations } from "./jobs/steps.js";
import { wakeOperations } from "./jobs/wakes.js";
import type { Notifier } from "./notify/notifier.js";

type Calls = Pick<
  Store,
  "steps" | "saveSteps" | "saveStepIn" | "openChildren" | "emit" | "emitIn" | "purgeEvents" | "repairWaits"
>;

/** What the calls need of the store. */
interface StoreParts {
  db: Db;
  where: string;
  time: () => number | null;
  tracked: <Result>(work: () => Promise<Result>) => Promise<Result>;
  leases: LeaseOperations;
  inserts: InsertOperations;
  /** Creates the lanes of jobs. Returns which of them are locked. */
  ensureLanes: (jobs: readonly NewJob[]) => Promise<((job: NewJob) => boolean) | null>;
  transactions: TransactionQueue;
  readTransaction: (tx: unknown) => CallersTransaction;
  /** Null: no notifications. */
  notifier: Notifier | null;
  hint: (...hints: Hint[]) => void;
  onInserted: (jobs: readonly NewJob[]) => void;
}

export interface PostgresSteps {
  calls: Calls;
  /** Runs a call that leaves notes, then ends their waits. */
  following<Result>(call: (notes: string[]) => Promise<Result>): Promise<Result>;
  /** Ends the waits of all notes, in the background. */
  sweep(): void;
}

/** Steps, waits and events. */
export function stepCalls(sql: Sql, parts: StoreParts): PostgresSteps {
  const { db, where, time, tracked, leases, transactions, readTransaction, notifier } = parts;
  const steps = stepOperations(sql, leases, parts.inserts);
  const events = eventOperations(sql);
  const wakes = wakeOperations(sql);
  let sweeping: Promise<unknown> | null = null;
  let isAskedAgain = false;

  function hintOf(woken: number): void {
    if (woken > 0) parts.hint(WORK_NOW);
  }

  async function following<Result>(call: (notes: string[]) => Promise<Result>): Promise<Result> {
    const notes: string[] = [];
    try {
      return await call(notes);
    } finally {
      // What was committed before an error also ends waits.
      if (notes.length > 0) hintOf(await wakes.follow(db, notes, time()));
    }
  }

  function sweep(): void {
    isAskedAgain = sweeping !== null;
    // If it fails, `repairWaits` does the same.
    sweeping ??= tracked(async () => hintOf(await wakes.sweep(db, time())))
      .catch(() => {})
      .finally(() => {
        sweeping = null;
        if (isAskedAgain) sweep();
      });
  }

  const calls: Calls = {
    steps: (job) => tracked(() => steps.read(db, job)),
    saveSteps: (writes) =>
      tracked(async () => {
        if (writes.length === 0) return [];
        const children = writes.flatMap(({ child }) => (child === null ? [] : [child]));
        const isLocked = children.length === 0 ? null : await parts.ensureLanes(children);
        const isFree = ({ child }: (typeof writes)[number]): boolean => child === null || isLocked?.(child) !== true;
        const free = writes.filter(isFree);
        const results = free.length === 0 ? [] : await steps.save(db, free, time(), parts.onInserted);
        return writes.map((write) => (isFree(write) ? results.shift() : undefined) ?? { status: "busy" });
      }),
    saveStepIn: (tx, write) =>
      tracked(async () => {
        const callers = readTransaction(tx);
        return transactions.run(callers, () => steps.saveIn(db, callersRunner(callers, where), write, time()));
      }),
    openChildren: (jobs, limit) => tracked(async () => (jobs.length === 0 ? [] : steps.openChildren(db, jobs, limit))),
    emit: (given) =>
      tracked(async () => {
        if (given.length === 0) return [];
        return following((notes) => events.emit(db, given, time(), notes));
      }),
    emitIn: (tx, event) =>
      tracked(async () => {
        const callers = readTransaction(tx);
        return transactions.run(callers, async () =>
          // The savepoint fails if no transaction is open.
          insideOf(callersRunner(callers, where)).isolated(async (runner) => {
            const result = await events.emitIn(runner, event, time());
            await notifier?.sendWakesIn(runner);
            return result;
          }),
        );
      }),
    purgeEvents: (limit) => tracked(() => events.purge(db, limit, time())),
    repairWaits: (limit) =>
      tracked(async () => {
        const woken = (await wakes.sweep(db, time())) + (await wakes.repair(db, limit, time()));
        hintOf(woken);
        return woken;
      }),
  };
  return { calls, following, sweep };
}

/** A parked job is due at its own time, which is none if it waits without limit. */
export function withParkTime({ to, delayMs, park }: Outcome, now: number): Pick<Outcome, "to" | "delayMs"> {
  if (park === undefined) return { to, delayMs };
  return { to, delayMs: park.until === null ? Number.POSITIVE_INFINITY : Math.max(0, park.until - now) };
}
