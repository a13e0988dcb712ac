import { eventTopic, jobTopic } from "../../../job/stored-step.js";
import type {
  JobSteps,
  InsertResult,
  NewJob,
  StepFailure,
  StepKind,
  StepResult,
  StepState,
  StepWrite,
  StoredStep,
} from "../../../store.js";
import type { Db, Row, Runner } from "../connection/db.js";
import { isLockTimeout, isRowError, rowError } from "../connection/errors.js";
import { insideOf } from "../connection/savepoints.js";
import { orNull, type Sql } from "../connection/sql.js";
import type { InsertOperations } from "./insert.js";
import type { LeaseOperations } from "./leases.js";
import { isUuid } from "./listing.js";
import { stepStatements } from "./steps-sql.js";

export interface StepOperations {
  read(runner: Runner, job: string): Promise<JobSteps>;
  /** `lanes` of the children exist. `onInserted` gets the children that were inserted. */
  save(
    db: Db,
    writes: readonly StepWrite[],
    now: number | null,
    onInserted: (jobs: readonly NewJob[]) => void,
  ): Promise<StepResult[]>;
  /** In the caller's transaction: waits for a lock that another session holds on the job's row. */
  saveIn(db: Db, runner: Runner, write: StepWrite, now: number | null): Promise<StepResult>;
  openChildren(runner: Runner, jobs: readonly string[], limit: number): Promise<string[]>;
}

const MAX_ROWS = 500;
// How long to wait for a free connection beside the caller's transaction, which may hold the last one of a small pool.
const FREE_CONNECTION_MS = 20;

/** A write with its place in the call. */
interface Item {
  write: StepWrite;
  at: number;
}

/** What became of a write: stored, or `stored` before; otherwise its result. `isNew`: its child was inserted with it. */
type Saved =
  | { status: "kept" | "cancel"; step: StoredStep | null; isNew: boolean }
  | Exclude<StepResult, { status: "kept" | "cancel" }>;

/** Steps of jobs. The statements are in steps-sql.ts. */
export function stepOperations(
  sql: Sql,
  leases: Pick<LeaseOperations, "stateOf" | "withSteps">,
  inserts: Pick<InsertOperations, "insertInside">,
): StepOperations {
  const statements = stepStatements(sql);

  /** Stores steps with different keys. */
  async function write(
    runner: Runner,
    inside: boolean,
    writes: readonly StepWrite[],
    now: number | null,
  ): Promise<Saved[]> {
    const rows = await runner.run(inside ? statements.saveInside : statements.save, columnsOf(writes, now));
    const { held, stored } = readSaved(rows);
    const results: Saved[] = [];
    for (const [at, each] of writes.entries()) {
      const isCancelled = held.get(`${each.id} ${each.fence}`);
      const row = stored.get(keyOf(each));
      if (isCancelled === undefined) continue;
      const step = row === undefined ? null : savedStep(each, row);
      results[at] = { status: isCancelled ? "cancel" : "kept", step, isNew: false };
    }
    const missing = writes.filter((_, at) => results[at] === undefined);
    if (missing.length === 0) return results;
    const states = await leases.stateOf(runner, missing);
    return writes.map((_, at) => results[at] ?? { status: states.shift() ?? "lost" });
  }

  /** The same with their children, in one transaction. */
  async function writeWithChildren(db: Db, writes: readonly StepWrite[], now: number | null): Promise<Saved[]> {
    return db.transaction(async (tx) => {
      const held = await tx.run(statements.hold, keyColumns(writes));
      const stored = new Map(held.map(([at, , state, topic]) => [at as number, { state, topic }]));
      // A child whose step is stored was inserted with it, though it may have been deleted since.
      const isMissing = (each: StepWrite, at: number): boolean =>
        stored.has(at) && stored.get(at)?.topic !== each.topic;
      const spawning = writes
        .map((each, at) => ({ each, at }))
        .filter(({ each, at }) => each.child !== null && isMissing(each, at) && !hasEnded(stored.get(at)?.state));
      const children = spawning.map(({ each }) => each.child as NewJob);
      const inserted = children.length === 0 ? [] : await inserts.insertInside(insideOf(tx), children, now);
      const outcomes = new Map<number, InsertResult>(
        spawning.map(({ at }, index) => [at, inserted[index] as InsertResult]),
      );
      const open = writes
        .map((each, at) => ({ write: each, at }))
        .filter(({ at }) => stored.has(at) && outcomes.get(at)?.status !== "refused");
      const saved =
        open.length === 0
          ? []
          : await write(
              tx,
              false,
              open.map((item) => item.write),
              now,
            );
      const results: Saved[] = [];
      for (const [index, { at }] of open.entries()) {
        const result = saved[index] as Saved;
        results[at] = "isNew" in result ? { ...result, isNew: outcomes.get(at)?.status === "inserted" } : result;
      }
      // A lease that was locked may be free by now. Its step must not be stored without its child.
      const unheld = writes.filter((_, at) => !stored.has(at));
      const states = unheld.length === 0 ? [] : await leases.stateOf(tx, unheld);
      return writes.map((_, at): Saved => {
        if (!stored.has(at)) return { status: states.shift() ?? "lost" };
        return results[at] ?? { status: "refused", error: refusal(outcomes.get(at)) };
      });
    });
  }

  /** In halves, until a step that cannot be stored, or one that another session has locked, is alone. */
  async function splitting(
    writes: readonly StepWrite[],
    work: (part: readonly StepWrite[]) => Promise<Saved[]>,
  ): Promise<Saved[]> {
    try {
      return await work(writes);
    } catch (error) {
      const isBusy = isLockTimeout(error);
      if (!isBusy && !isRowError(error)) throw error;
      if (writes.length === 1) return [isBusy ? { status: "busy" } : { status: "refused", error: messageOf(error) }];
      const middle = Math.ceil(writes.length / 2);
      return [...(await splitting(writes.slice(0, middle), work)), ...(await splitting(writes.slice(middle), work))];
    }
  }

  /** Ends waits that were just stored and whose topics have ended. */
  async function look(
    runner: Runner,
    waits: readonly Item[],
    results: StepResult[],
    now: number | null,
  ): Promise<void> {
    const end = (items: readonly Item[], rows: readonly Row[]): void => {
      for (const [index, value, failure, endedAt] of rows) {
        const { at } = items[index as number] as Item;
        const result = results[at];
        if (endedAt === null) results[at] = { status: "busy" };
        else if (result !== undefined && "step" in result) {
          const state = failure === null ? "done" : "failed";
          const step: StoredStep = {
            ...result.step,
            state,
            value: value as string | null,
            failure: readFailure(failure),
            endedAt: endedAt as number,
          };
          results[at] = { ...result, step };
        }
      }
    };
    const topicOf = ({ write: { topic } }: Item): string => topic ?? "";
    const keys = (items: readonly Item[]): unknown[] => [
      now,
      items.map(({ write: { id } }) => id),
      items.map(({ write: { name } }) => name),
      items.map(({ write: { member } }) => member),
    ];
    const events = waits.filter((item) => topicOf(item).startsWith(eventTopic("")));
    if (events.length > 0) {
      const names = events.map((item) => topicOf(item).slice(eventTopic("").length));
      end(events, await runner.run(statements.lookForEvents, [...keys(events), names]));
    }
    const jobs = waits.filter((item) => topicOf(item).startsWith(jobTopic("")));
    if (jobs.length === 0) return;
    const ids = jobs.map((item) => topicOf(item).slice(jobTopic("").length)).map((id) => (isUuid.test(id) ? id : null));
    await runner.run(statements.awaitJobs, [ids]);
    end(jobs, await runner.run(statements.lookForJobs, [...keys(jobs), ids]));
  }

  /** Results with the stored steps of writes that had ended before. */
  async function complete(
    runner: Runner,
    writes: readonly StepWrite[],
    saved: readonly Saved[],
  ): Promise<StepResult[]> {
    const before = writes.map((each, at) => ({ write: each, at })).filter(({ at }) => isStoredBefore(saved[at]));
    const found = new Map<number, StoredStep>();
    if (before.length > 0) {
      const [, ids, , names, members] = [null, ...keyColumns(before.map((item) => item.write))];
      for (const [index, ...row] of await runner.run(statements.stored, [ids, names, members]))
        found.set((before[index as number] as Item).at, readStep(row));
    }
    return saved.map((result, at): StepResult => {
      if (!("isNew" in result)) return result;
      const step = result.step ?? found.get(at);
      // Deleted since with its job.
      return step === undefined ? { status: "lost" } : { status: result.status, step };
    });
  }

  return {
    async read(runner, job) {
      const rows = await runner.run(statements.read, [job]);
      // A job without steps has one row, without a name.
      return { steps: rows.filter(([name]) => name !== null).map(readStep), wakes: Number(rows[0]?.[WAKES] ?? 0) };
    },

    async save(db, writes, now, onInserted) {
      const results: StepResult[] = [];
      for (const round of roundsOf(writes)) {
        const part = round.map((item) => item.write);
        const hasChild = part.some(({ child }) => child !== null);
        const saved = await splitting(part, (some) =>
          hasChild ? writeWithChildren(db, some, now) : write(db, false, some, now),
        );
        const completed = await complete(db, part, saved);
        const waits: Item[] = [];
        for (const [index, item] of round.entries()) {
          const result = completed[index] as StepResult;
          const isNew = "isNew" in (saved[index] as Saved) && (saved[index] as { isNew: boolean }).isNew;
          results[item.at] = result;
          if ("step" in result) leases.withSteps.add(item.write.id);
          if (
            "step" in result &&
            result.step.state === "waiting" &&
            item.write.topic !== null &&
            !(isNew && item.write.child?.awaited === true)
          )
            waits.push(item);
        }
        const spawned = part.flatMap(({ child }, index) => {
          const result = saved[index];
          return child !== null && result !== undefined && "isNew" in result && result.isNew ? [child] : [];
        });
        if (spawned.length > 0) onInserted(spawned);
        if (waits.length > 0) await look(db, waits, results, now);
      }
      return results;
    },

    async saveIn(db, runner, step, now) {
      const lease = [step.id, step.fence];
      // On a connection of the store: the caller's transaction would lock the row against all other steps until its commit.
      await db.runIfFree(FREE_CONNECTION_MS, statements.mark, lease);
      leases.withSteps.add(step.id);
      return insideOf(runner).isolated(async (inside) => {
        // In a separate statement, so that the next ones see the row as it is after the lock was granted.
        const [locked] = await inside.run(statements.lock, lease);
        if (locked === undefined) return { status: "lost" };
        if (locked[0] !== true) await inside.run(statements.markInside, [step.id]);
        const [result] = await complete(inside, [step], await write(inside, true, [step], now));
        return result ?? { status: "lost" };
      });
    },

    openChildren: async (runner, jobs, limit) =>
      (await runner.run(statements.openChildren, [jobs, limit])).map(([id]) => id as string),
  };
}

/** Splits writes, in order, so that each part has a step at most once, and only steps with a child or only others. */
function roundsOf(writes: readonly StepWrite[]): Item[][] {
  const rounds: Item[][] = [];
  let keys = new Set<string>();
  for (const [at, write] of writes.entries()) {
    const last = rounds.at(-1);
    const key = keyOf(write);
    const isAlike = last !== undefined && (last[0]?.write.child === null) === (write.child === null);
    if (!isAlike || last.length >= MAX_ROWS || keys.has(key)) {
      rounds.push([]);
      keys = new Set();
    }
    keys.add(key);
    rounds.at(-1)?.push({ write, at });
  }
  return rounds;
}

function keyColumns(writes: readonly StepWrite[]): unknown[] {
  return [
    writes.map(({ id }) => id),
    writes.map(({ fence }) => fence),
    writes.map(({ name }) => name),
    writes.map(({ member }) => member),
  ];
}

function columnsOf(writes: readonly StepWrite[], now: number | null): unknown[] {
  return [
    now,
    ...keyColumns(writes),
    writes.map(({ order }) => order),
    writes.map(({ kind }) => kind),
    writes.map(({ to }) => to),
    writes.map(({ tries }) => tries),
    orNull(writes, ({ topic }) => topic),
    orNull(writes, ({ value }) => value),
    orNull(writes, ({ failure }) => (failure === null ? null : JSON.stringify(failure))),
    orNull(writes, ({ forMs }) => forMs),
    writes.map(({ wake }) => wake),
  ];
}

const SAVED = {
  id: 0,
  fence: 1,
  isCancelled: 2,
  name: 3,
  member: 4,
  place: 5,
  startedAt: 6,
  endedAt: 7,
  until: 8,
} as const;

/** Whether cancellation of each held lease was requested, and the rows of the stored steps. */
function readSaved(rows: readonly Row[]): { held: Map<string, boolean>; stored: Map<string, Row> } {
  const held = new Map<string, boolean>();
  const stored = new Map<string, Row>();
  for (const row of rows) {
    const [id, fence, isCancelled, name, member] = row as [string, number | null, boolean, string, number];
    if (fence === null) stored.set(keyOf({ id, name, member }), row);
    else held.set(`${id} ${fence}`, isCancelled);
  }
  return { held, stored };
}

function keyOf({ id, name, member }: Pick<StepWrite, "id" | "name" | "member">): string {
  return `${id} ${member} ${name}`;
}

/** The step as it is stored now. */
function savedStep(write: StepWrite, row: Row): StoredStep {
  return {
    name: write.name,
    member: write.member,
    order: row[SAVED.place] as number,
    kind: write.kind,
    state: write.to,
    fence: write.fence,
    tries: write.tries,
    topic: write.topic,
    value: write.value,
    failure: write.failure,
    startedAt: row[SAVED.startedAt] as number,
    endedAt: row[SAVED.endedAt] as number | null,
    until: row[SAVED.until] as number | null,
  };
}

/** The column after those of a step. */
const WAKES = 13;

function readStep(row: Row): StoredStep {
  const [name, member, order, kind, state, fence, tries, topic, value, failure, startedAt, endedAt, until] = row;
  return {
    name: name as string,
    member: member as number,
    order: order as number,
    kind: kind as StepKind,
    state: state as StepState,
    fence: fence as number,
    tries: tries as number,
    topic: topic as string | null,
    value: value as string | null,
    failure: readFailure(failure),
    startedAt: startedAt as number,
    endedAt: endedAt as number | null,
    until: until as number | null,
  };
}

function readFailure(text: unknown): StepFailure | null {
  return typeof text === "string" ? (JSON.parse(text) as StepFailure) : null;
}

function isStoredBefore(saved: Saved | undefined): boolean {
  return saved !== undefined && "isNew" in saved && saved.step === null;
}

function hasEnded(state: unknown): boolean {
  return state === "done" || state === "failed";
}

function messageOf(error: unknown): string {
  const { cause, message } = error as Error;
  return cause instanceof Error ? rowError(cause) : message;
}

function refusal(result: InsertResult | undefined): string {
  if (result?.status !== "refused") return "its child was not stored";
  return result.reason === "not-stored" ? result.error : `its unique key is held by job ${result.of}`;
}
