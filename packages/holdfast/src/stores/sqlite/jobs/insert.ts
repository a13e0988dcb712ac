import type { Database, RunResult, Statement } from "better-sqlite3";
import { LIMITS } from "../../../defaults.js";
import { isWaiting, type State } from "../../../job/state.js";
import type { InsertResult, NewJob, UniqueKey } from "../../../store.js";
import type { Counts } from "./counts.js";
import { isKeyHeld, type Keys } from "./unique-keys.js";
import { TIES } from "../../../job/stored-step.js";
import { NEXT_SEQ } from "./sequence.js";
import { storedScope } from "../../stored-values.js";

/** insert: new rows, duplicates by id, and the three ways to handle a unique key that is held. */
export function insertOperation(
  db: Database,
  counts: Counts,
  keys: Keys,
): (jobs: readonly NewJob[], now: number) => InsertResult[] {
  const inserts = new InsertStatements(db);
  const insertInput = db.prepare("INSERT OR REPLACE INTO holdfast_inputs (job, input) VALUES (?, ?)");
  const deleteInput = db.prepare("DELETE FROM holdfast_inputs WHERE job = ?");
  const insertTag = db.prepare("INSERT OR IGNORE INTO holdfast_tags (tag, job) VALUES (?, ?)");
  const deleteTag = db.prepare("DELETE FROM holdfast_tags WHERE tag = ? AND job = ?");
  const exists = db.prepare("SELECT 1 FROM holdfast_jobs WHERE id = ?").pluck();
  const rowById = db.prepare(
    "SELECT seq, state, fence, queue, type, tags, created_at, ties FROM holdfast_jobs WHERE id = ?",
  );
  rowById.safeIntegers(false);
  const rewriteRow = db.prepare(
    `UPDATE holdfast_jobs SET type = ?, queue = ?, priority = ?, state = 'pending', user = ?, input = ?, attempt = 0,
       max_attempts = ?, losses = 0, releases = 0, run_at = ?, due_at = ?, expires_at = ?, schedule = ?, slot = ?, trace = ?,
       parent = ?, settings = ?, updated_at = ?, key_scope = ?, tags = ?, error = NULL, error_code = NULL, error_at = NULL,
       fingerprint = NULL, claimed_at = NULL, started_at = NULL, progress = NULL, progress_note = NULL, progress_data = NULL
     WHERE seq = ?`,
  );

  function insertOne(job: NewJob, now: number): InsertResult {
    const { unique } = job;
    if (unique !== null) {
      if (exists.get(job.id) !== undefined) return { status: "duplicate", of: job.id, replaced: false };
      const holder = keys.holder(unique.key);
      if (holder !== undefined && isKeyHeld(holder, now)) return conflict(job, unique, holder.job, now);
    }
    const { mustExceed } = counts.sequence;
    const added = inserts.run(job, now, mustExceed);
    if (added.changes === 0) return { status: "duplicate", of: job.id, replaced: false };
    counts.sequence.inserted();
    if (isLarge(job)) insertInput.run(added.lastInsertRowid, job.input);
    for (const tag of job.tags) insertTag.run(tag, added.lastInsertRowid);
    if (unique !== null) keys.acquire(unique.key, job.id, keyRecord(unique, 0, now));
    counts.recordStateChange(job.id, job.queue, job.type, null, "pending");
    counts.blockRanges.add(job.type, Number(added.lastInsertRowid), now);
    return { status: "inserted" };
  }

  function conflict(job: NewJob, unique: UniqueKey, holderId: string, now: number): InsertResult {
    if (unique.onConflict === "reject") return { status: "refused", reason: "key-held", of: holderId };
    const replaced = unique.onConflict === "replace" && replace(job, unique, holderId, now);
    return { status: "duplicate", of: holderId, replaced };
  }

  /** Replaces a waiting job that has no steps, and keeps its id. The fence is not reset, so that an old lease is never mistaken for a new one. */
  function replace(job: NewJob, unique: UniqueKey, holderId: string, now: number): boolean {
    const row = rowById.get(holderId) as
      | {
          seq: number;
          state: State;
          fence: number;
          queue: string;
          type: string;
          tags: string | null;
          created_at: number;
          ties: number | null;
        }
      | undefined;
    if (row === undefined || !isWaiting(row.state) || hasSteps(row.ties)) return false;
    rewriteRow.run(...requestedValues(job, now), now, storedScope(unique.scope), tagText(job.tags), row.seq);
    if (isLarge(job)) insertInput.run(row.seq, job.input);
    else deleteInput.run(row.seq);
    for (const tag of readTagText(row.tags)) deleteTag.run(tag, row.seq);
    for (const tag of job.tags) insertTag.run(tag, row.seq);
    keys.acquire(unique.key, holderId, keyRecord(unique, row.fence, now));
    counts.recordStateChange(holderId, row.queue, row.type, row.state, null);
    counts.recordStateChange(holderId, job.queue, job.type, null, "pending");
    counts.blockRanges.add(job.type, row.seq, row.created_at);
    return true;
  }

  return (jobs: readonly NewJob[], now: number): InsertResult[] =>
    jobs.map((job) => {
      try {
        return insertOne(job, now);
      } catch (error) {
        // A row that the schema rejects fails alone. Any other error, such as a full disk, fails the whole batch.
        if (!String((error as { code?: unknown }).code).startsWith("SQLITE_CONSTRAINT")) throw error;
        return { status: "refused", reason: "not-stored", error: (error as Error).message };
      }
    });
}

const REQUIRED = "id type queue priority input max_attempts run_at due_at created_at updated_at".split(" ");
/** The columns that most jobs leave empty. Each has a bit, by its place. */
const OPTIONAL = [
  "user",
  "expires_at",
  "schedule, slot",
  "trace",
  "parent",
  "settings",
  "key, key_scope",
  "tags",
  "ties",
] as const;
const NUMBERED = 1 << OPTIONAL.length;

/**
 * A statement names only the columns that its job needs: each value takes time, also if it is NULL, and all of them took 4 % of an
 * insert. There are few combinations, and each is prepared when it first occurs.
 */
class InsertStatements {
  readonly #db: Database;
  readonly #prepared = new Map<number, Statement>();

  constructor(db: Database) {
    this.#db = db;
  }

  /** `mustExceed`: the row's number must be greater. Null: SQLite chooses one. */
  run(job: NewJob, now: number, mustExceed: number | null): RunResult {
    const { id, type, queue, priority, user, maxAttempts, expiresAt, schedule, trace, parent, settings, unique, tags } =
      job;
    const dueAt = dueAtOf(job, now);
    const values: unknown[] = [];
    let bits = 0;
    const add = (bit: number, ...more: unknown[]): void => {
      bits |= bit;
      values.push(...more);
    };
    if (mustExceed !== null) add(NUMBERED, mustExceed, mustExceed);
    values.push(id, type, queue, priority, inlineInput(job), maxAttempts, dueAt, dueAt, now, now);
    if (user !== null) add(1, user);
    if (expiresAt !== null) add(2, expiresAt);
    if (schedule !== null) add(4, schedule.name, schedule.slot);
    if (trace !== null) add(8, trace);
    if (parent !== null) add(16, parent);
    if (settings !== null) add(32, JSON.stringify(settings));
    if (unique !== null) add(64, unique.key, storedScope(unique.scope));
    if (tags.length > 0) add(128, tagText(tags));
    if (job.awaited === true) add(256, TIES.awaited);
    return this.#statement(bits).run(...values);
  }

  #statement(bits: number): Statement {
    const prepared = this.#prepared.get(bits);
    if (prepared !== undefined) return prepared;
    const optional = OPTIONAL.flatMap((columns, place) => ((bits & (1 << place)) === 0 ? [] : columns.split(", ")));
    const statement = this.#db.prepare(
      `INSERT INTO holdfast_jobs (${["seq, state, attempt, losses, releases, fence", ...REQUIRED, ...optional].join(", ")})
       VALUES (${(bits & NUMBERED) === 0 ? "NULL" : NEXT_SEQ}, 'pending', 0, 0, 0, 0, ${[...REQUIRED, ...optional].fill("?").join(", ")})
       ON CONFLICT (id) DO NOTHING`,
    );
    this.#prepared.set(bits, statement);
    return statement;
  }
}

/** The values of an enqueue, in the order of the placeholders of the statement that replaces a job. */
function requestedValues(job: NewJob, now: number): unknown[] {
  const dueAt = dueAtOf(job, now);
  const { type, queue, priority, user, maxAttempts, expiresAt, schedule, trace, parent } = job;
  const [name, slot] = schedule === null ? NO_SCHEDULE : [schedule.name, schedule.slot];
  const settings = job.settings === null ? null : JSON.stringify(job.settings);
  const input = inlineInput(job);
  return [
    type,
    queue,
    priority,
    user,
    input,
    maxAttempts,
    dueAt,
    dueAt,
    expiresAt,
    name,
    slot,
    trace,
    parent,
    settings,
  ];
}

function hasSteps(ties: number | null): boolean {
  return ties !== null && (ties & TIES.steps) !== 0;
}

function dueAtOf({ runAt, delayMs }: NewJob, now: number): number {
  return (runAt ?? now) + delayMs;
}

const NO_SCHEDULE = [null, null] as const;

function inlineInput(job: NewJob): string | null {
  return isLarge(job) ? null : job.input;
}

/** Large inputs are stored in another table, so that changes of the job's row stay cheap. */
export function isLarge(job: { input: string }): boolean {
  return job.input.length > LIMITS.inlineInputBytes;
}

function keyRecord(unique: UniqueKey, fence: number, now: number): Parameters<Keys["acquire"]>[2] {
  const until = unique.scope === "period" ? now + unique.periodMs : null;
  return { scope: storedScope(unique.scope), until, acquiredAtFence: fence };
}

export function tagText(tags: readonly string[]): string | null {
  return tags.length === 0 ? null : JSON.stringify(tags);
}
export function readTagText(text: string | null): string[] {
  if (text === null) return [];
  // A damaged row must not stop the other jobs of its queue.
  try {
    const tags: unknown = JSON.parse(text);
    return Array.isArray(tags) ? tags.filter((tag) => typeof tag === "string") : [];
  } catch {
    return [];
  }
}
