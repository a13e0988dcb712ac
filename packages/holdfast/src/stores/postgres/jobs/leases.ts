import { LIMITS } from "../../../defaults.js";
import { isFinished, isLeased, settledBefore, type State } from "../../../job/state.js";
import type { LeaseResult, LeaseRef, Note, Outcome, SettleResult, StartMark } from "../../../store.js";
import type { Row, Runner } from "../connection/db.js";
import { archiveSql, purgeTime } from "./archive-sql.js";
import { LEASED, NOW, orNull, rowsOf, type Sql } from "../connection/sql.js";
import type { Recorder } from "./recorder.js";
import { stateStatement, type StateStatement } from "./recording.js";
import { readTied, tiedColumns, tiedStatement } from "./settle-tied.js";

export interface LeaseOperations {
  /** Of this process. Settles of these jobs skip the statements for jobs without ties. */
  readonly withSteps: RecentJobs;
  start(runner: Runner, marks: readonly StartMark[], now: number | null): Promise<LeaseResult[]>;
  extend(runner: Runner, leases: readonly LeaseRef[], leaseMs: number, now: number | null): Promise<LeaseResult[]>;
  /** `notes` gets the numbers of notes about waits that have ended. */
  settle(
    runner: Runner,
    outcomes: readonly Outcome[],
    now: number | null,
    notes: string[],
  ): Promise<(SettleResult | "busy")[]>;
  /** In the caller's transaction: waits for a lock that another session holds on the row. */
  settleIn(
    runner: Runner,
    outcome: Outcome,
    note: Note | null,
    now: number | null,
  ): Promise<{ result: SettleResult; notes: string[] }>;
  note(runner: Runner, notes: readonly Note[], now: number | null): Promise<void>;
  /** Why leases were not found unlocked: they are lost, or another session has locked their rows. */
  stateOf(runner: Runner, refs: readonly LeaseRef[]): Promise<("lost" | "busy")[]>;
}

const TRIES = 3;

/** start, extend, settle, note: the operations of the holder of a lease. Each of them checks the fence. */
export function leaseOperations(sql: Sql, recorder: Recorder): LeaseOperations {
  const { s } = sql;
  const archive = archiveSql(sql);
  const withSteps = new RecentJobs();
  // Locked rows are skipped: one that another session holds must not block its whole batch. The arrays are in subqueries, which
  // hides their lengths from the planner. A plan made for one job looks cheaper to it than the plan for any number, so it would plan
  // this statement anew each time, which takes longer than to execute it.
  const heldRows = (lock: string): string => `held AS MATERIALIZED (
    SELECT l.* FROM ${rowsOf("(SELECT $2::uuid[]), (SELECT $3::integer[])")} AS r (id, fence) CROSS JOIN LATERAL (
      SELECT ctid AS address, id, fence, state, cancel_at FROM ${s}.live
      WHERE id = r.id AND fence = r.fence AND state IN ${LEASED} ${lock}
    ) l)`;
  const held = heldRows("FOR UPDATE SKIP LOCKED");
  const start = stateStatement(
    sql,
    "start",
    (
      recording,
    ) => `WITH ${recording.now}, ${held}, mark AS MATERIALIZED (SELECT * FROM ${rowsOf("$2::uuid[], $4::bigint[]")} AS m (id, started_at)),
     marked AS (
       UPDATE ${s}.live SET state = 'running', started_at = (SELECT started_at FROM mark WHERE mark.id = live.id LIMIT 1),
         updated_at = (SELECT now FROM t)
       WHERE ctid = ANY (ARRAY(SELECT address FROM held WHERE state = 'claimed')) RETURNING id, queue, type
     ), ${recording.of("marked", { state: "'running'" })} deltas AS (
       INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
       SELECT now, queue, type, v.state, v.sign * pg_catalog.count(*), false FROM marked, t, (VALUES ('claimed', -1), ('running', 1)) AS v (state, sign)
       GROUP BY now, queue, type, v.state, v.sign
     )
     SELECT id::text, cancel_at IS NOT NULL, fence FROM held WHERE state = 'running' OR id = ANY (ARRAY(SELECT id FROM marked))`,
  );
  const extend = sql.statement(
    "extend",
    `WITH ${NOW}, ${held}, moved AS (
       UPDATE ${s}.live SET due_at = (SELECT now FROM t) + $4::bigint, updated_at = (SELECT now FROM t)
       WHERE ctid = ANY (ARRAY(SELECT address FROM held)) RETURNING id, cancel_at, fence
     ) SELECT id::text, cancel_at IS NOT NULL, fence FROM moved`,
  );
  const readLeases = sql.statement(
    "read_leases",
    `SELECT id::text, fence, state FROM ${s}.live WHERE id = ANY ($1::uuid[])
     UNION ALL SELECT id::text, fence, state FROM ${s}.archive WHERE id = ANY ($1::uuid[])`,
  );
  const outcomes = `o AS MATERIALIZED (
    SELECT * FROM ${rowsOf("$2::uuid[], $4::text[], $5::text[], $6::integer[], $7::integer[], $8::bigint[], $9::text[], $10::text[], $11::bigint[], $12::text[], $13::bigint[], $14::text[]")}
      AS o (id, new_state, output, attempt, releases, started_at, message, code, delay_ms, record, purge_ms, fingerprint))`;
  const history = (done: string): string => `INSERT INTO ${s}.attempts (job, record)
    SELECT o.id, o.record::json FROM o WHERE o.record IS NOT NULL AND o.id = ANY (ARRAY(SELECT id FROM ${done}))`;
  const error = {
    error: "coalesce(o.message, g.error)",
    error_code: "CASE WHEN o.message IS NULL THEN g.error_code ELSE o.code END",
    error_at: "CASE WHEN o.message IS NULL THEN g.error_at ELSE (SELECT now FROM t) END",
    fingerprint: "CASE WHEN o.message IS NULL THEN g.fingerprint ELSE o.fingerprint END",
  };
  const gone = (which: string): string => `gone AS (
       DELETE FROM ${s}.live WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM ${s}.live WHERE id = ANY ($2::uuid[]) AND fence = $3 AND state IN ${LEASED} AND ${which}ties IS NULL
         FOR UPDATE SKIP LOCKED))
       RETURNING *)`;
  const endState =
    "CASE WHEN g.cancel_at IS NOT NULL AND o.new_state <> 'completed' THEN 'cancelled' ELSE o.new_state END";
  const finish = stateStatement(
    sql,
    "finish",
    (recording) => `WITH ${recording.now}, ${outcomes}, ${gone("")}, kept AS (${archive.insert(
      "gone g JOIN o ON o.id = g.id",
      {
        state: endState,
        purge_at: `CASE WHEN o.purge_ms IS NOT NULL AND o.new_state = ${endState} THEN (SELECT now FROM t) + o.purge_ms ELSE ${purgeTime(endState)} END`,
        output: "CASE WHEN o.new_state = 'completed' THEN o.output::json END",
        attempt: "o.attempt",
        releases: "o.releases",
        updated_at: "(SELECT now FROM t)",
        started_at: "coalesce(g.started_at, o.started_at)",
        ...error,
      },
      { withTies: false },
    )}), freed_keys AS (${archive.freeKeys}), ${recording.of("kept")} deltas AS (${archive.deltas}), history AS (${history("kept")})
     SELECT id::text, state FROM kept`,
  );
  // A requested cancellation does not change these outcomes.
  const unchanged = "id = ANY (ARRAY(SELECT id FROM o WHERE new_state IN ('completed', 'cancelled')))";
  const drop = stateStatement(
    sql,
    "drop",
    (recording) => `WITH ${recording.now}, ${outcomes}, ${gone(`(cancel_at IS NULL OR ${unchanged}) AND `)}, kept AS (
       SELECT g.id, g.queue, g.type, o.new_state AS state FROM gone g JOIN o ON o.id = g.id
     ), ${recording.of("kept")} ${archive.deleteRelated("gone", "own keys", { withTies: false })}, ended AS (
       INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
       SELECT now, queue, type, state, v.sign * pg_catalog.count(*), v.ended FROM kept, t, (VALUES (1, true), (-1, false)) AS v (sign, ended)
       GROUP BY now, queue, type, state, v.sign, v.ended
     )
     SELECT id::text, state FROM kept`,
  );
  const lock = sql.statement(
    "lock_lease",
    `SELECT ties IS NOT NULL FROM ${s}.live WHERE id = $1::uuid AND fence = $2 AND state IN ${LEASED} FOR UPDATE`,
  );
  const reschedule = stateStatement(
    sql,
    "reschedule",
    (recording) => `WITH ${recording.now}, ${outcomes}, target AS MATERIALIZED (
       SELECT ctid AS address, id, queue, type, state FROM ${s}.live
       WHERE id = ANY ($2::uuid[]) AND fence = $3 AND state IN ${LEASED} AND cancel_at IS NULL AND ties IS NULL FOR UPDATE SKIP LOCKED
     ), kept AS (
       UPDATE ${s}.live g SET state = o.new_state, due_at = (SELECT now FROM t) + o.delay_ms, run_at = (SELECT now FROM t) + o.delay_ms,
         attempt = o.attempt, releases = o.releases, started_at = coalesce(g.started_at, o.started_at), worker = NULL,
         updated_at = (SELECT now FROM t), error = ${error.error}, error_code = ${error.error_code}, fingerprint = ${error.fingerprint},
         error_at = CASE WHEN o.new_state = 'failed' AND o.message IS NULL AND g.error IS NULL THEN (SELECT now FROM t) ELSE ${error.error_at} END
       FROM o WHERE g.ctid = ANY (ARRAY(SELECT address FROM target)) AND o.id = g.id
       RETURNING g.id, g.queue, g.type, g.state
     ), history AS (${history("kept")}), ${recording.of("kept")} deltas AS (
       INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
       SELECT now, queue, type, state, -pg_catalog.count(*), false FROM target, t WHERE id = ANY (ARRAY(SELECT id FROM kept)) GROUP BY now, queue, type, state
       UNION ALL SELECT now, queue, type, state, pg_catalog.count(*), false FROM kept, t GROUP BY now, queue, type, state
     )
     SELECT id::text, state FROM kept`,
  );
  const tied = tiedStatement(sql, { outcomes, error });
  const write = (runner: Runner, statement: StateStatement, values: readonly unknown[]): Promise<Row[]> =>
    recorder.run(runner, statement, values);
  const trim = sql.statement(
    "trim_history",
    `DELETE FROM ${s}.attempts WHERE ctid = ANY (ARRAY(
       SELECT d.address FROM pg_catalog.unnest($1::uuid[]) AS o (job) CROSS JOIN LATERAL (
         SELECT ctid AS address FROM ${s}.attempts k WHERE k.job = o.job ORDER BY n DESC OFFSET ${LIMITS.attempts}) d))`,
  );
  const noteProgress = sql.statement(
    "note",
    `WITH ${NOW}, ${held}, n AS (SELECT * FROM ${rowsOf("$2::uuid[], $4::float8[], $5::text[], $6::text[]")} AS n (id, fraction, note, data))
     UPDATE ${s}.live g SET progress = n.fraction, progress_note = n.note, progress_data = n.data::json, updated_at = (SELECT now FROM t)
     FROM n WHERE g.ctid = ANY (ARRAY(SELECT address FROM held)) AND n.id = g.id`,
  );
  // A job that is being deleted gets no more lines: they would not be deleted with it.
  const noteLog = sql.statement(
    "log",
    `WITH ${NOW}, ${heldRows("FOR KEY SHARE SKIP LOCKED")} INSERT INTO ${s}.log (job, at, line)
     SELECT l.id, l.at, l.line FROM ${rowsOf("$4::uuid[], $5::bigint[], $6::text[]")} WITH ORDINALITY AS l (id, at, line, ordinal)
     WHERE l.id = ANY (ARRAY(SELECT id FROM held)) ORDER BY l.ordinal`,
  );
  const trimLog = sql.statement(
    "trim_log",
    `DELETE FROM ${s}.log WHERE ctid = ANY (ARRAY(
       SELECT d.address FROM pg_catalog.unnest($1::uuid[]) AS o (job) CROSS JOIN LATERAL (
         SELECT ctid AS address FROM ${s}.log k WHERE k.job = o.job ORDER BY n DESC OFFSET ${LIMITS.logLines}) d))`,
  );

  /** The current fence and state of jobs, live or finished. */
  async function currentLeases(runner: Runner, ids: readonly string[]): Promise<Map<string, CurrentLease>> {
    const rows = await runner.run(readLeases, [ids]);
    return new Map(rows.map(readCurrentLease));
  }

  async function stateOf(runner: Runner, refs: readonly LeaseRef[]): Promise<("lost" | "busy")[]> {
    const found = await currentLeases(
      runner,
      refs.map(({ id }) => id),
    );
    return refs.map(({ id, fence }) => {
      const job = found.get(id);
      return job !== undefined && job.fence === fence && isLeased(job.state) ? "busy" : "lost";
    });
  }

  async function leaseResults(
    runner: Runner,
    refs: readonly LeaseRef[],
    change: () => Promise<Row[]>,
  ): Promise<LeaseResult[]> {
    const changed = new Map(
      (await change()).map(([id, cancel, fence]) => [`${id as string} ${fence as number}`, cancel as boolean]),
    );
    const missing = refs.filter(({ id, fence }) => !changed.has(`${id} ${fence}`));
    const states = missing.length === 0 ? [] : await stateOf(runner, missing);
    return refs.map(({ id, fence }) => {
      const cancel = changed.get(`${id} ${fence}`);
      if (cancel !== undefined) return cancel ? "cancel" : "kept";
      return states.shift() ?? "lost";
    });
  }

  /**
   * The new state of each job with this fence. A job that is missing in the result was locked, or its lease is lost. `notes` gets
   * the numbers of notes.
   */
  async function settleGroup(
    runner: Runner,
    fence: number,
    group: readonly Outcome[],
    now: number | null,
    notes: string[],
  ): Promise<Map<string, State | "awake">> {
    const done = new Map<string, State | "awake">();
    const collect = (rows: readonly (readonly unknown[])[]): void => {
      for (const [id, state] of rows as [string, State | "awake"][]) done.set(id, state);
    };
    const plain = group.filter((outcome) => !mayBeTied(outcome));
    const waiting = plain.filter(({ to }) => !isFinished(to));
    if (waiting.length > 0) collect(await write(runner, reschedule, outcomeColumns(waiting, fence, now)));
    const finished = plain.filter(({ to }) => isFinished(to));
    const [kept, dropped] = [finished.filter(({ keep }) => keep), finished.filter(({ keep }) => !keep)];
    if (kept.length > 0) collect(await write(runner, finish, outcomeColumns(kept, fence, now)));
    if (dropped.length > 0) collect(await write(runner, drop, outcomeColumns(dropped, fence, now)));
    // Jobs with ties, and those that would wait or be dropped and are cancelled instead.
    const left = group.filter(({ id }) => !done.has(id));
    if (left.length > 0) {
      const settled = readTied(await write(runner, tied, [...outcomeColumns(left, fence, now), ...tiedColumns(left)]));
      collect(settled.done);
      notes.push(...settled.notes);
    }
    for (const { id, to } of group) if (isFinished(to)) withSteps.delete(id);
    const long = group.filter(
      ({ attemptRecord, attempt, releases }) => attemptRecord !== null && attempt + releases > LIMITS.attempts,
    );
    if (long.length > 0) await runner.run(trim, [long.map(({ id }) => id)]);
    return done;
  }

  function mayBeTied({ id, park, reopen }: Outcome): boolean {
    return park !== undefined || reopen !== undefined || withSteps.has(id);
  }

  async function settleEach(
    runner: Runner,
    all: readonly Outcome[],
    now: number | null,
    notes: string[],
  ): Promise<(SettleResult | "busy")[]> {
    const results: (SettleResult | "busy")[] = [];
    let open = all.map((outcome, at) => ({ outcome, at }));
    for (let attempt = 1; open.length > 0; attempt++) {
      const done = new Map<string, State | "awake">();
      for (const [fence, group] of byFence(open.map(({ outcome }) => outcome))) {
        for (const [id, state] of await settleGroup(runner, fence, group, now, notes))
          done.set(`${id} ${fence}`, state);
      }
      const missing = open.filter(({ outcome: { id, fence } }) => !done.has(`${id} ${fence}`));
      for (const { outcome, at } of open) {
        const state = done.get(`${outcome.id} ${outcome.fence}`);
        if (state !== undefined) results[at] = resultOf(outcome, state);
      }
      if (missing.length === 0) break;
      const found = await currentLeases(
        runner,
        missing.map(({ outcome }) => outcome.id),
      );
      open = missing.filter(({ outcome, at }) => {
        const job = found.get(outcome.id);
        if (job === undefined || job.fence !== outcome.fence) results[at] = "lost";
        else if (!isLeased(job.state)) results[at] = settledBefore(outcome.to, job.state);
        else return true;
        return false;
      });
      if (attempt === TRIES) {
        for (const { at } of open) results[at] = "busy";
        break;
      }
    }
    return results;
  }

  async function keepNotes(runner: Runner, notes: readonly Note[], now: number | null): Promise<void> {
    const progress = notes.filter((note) => note.progress !== null);
    if (progress.length > 0) {
      await runner.run(noteProgress, [
        now,
        ...refColumns(progress),
        progress.map((note) => note.progress?.fraction ?? 0),
        progress.map((note) => clean(note.progress?.note ?? null)),
        orNull(progress, (note) => note.progress?.data ?? null),
      ]);
    }
    const logged = notes.filter((note) => note.log.length > 0);
    if (logged.length === 0) return;
    const lines = logged.flatMap(({ id, log }) => log.map(({ at, line }) => ({ id, at, line })));
    await runner.run(noteLog, [
      now,
      ...refColumns(logged),
      lines.map(({ id }) => id),
      lines.map(({ at }) => at),
      lines.map(({ line }) => clean(line)),
    ]);
    await runner.run(trimLog, [logged.map(({ id }) => id)]);
  }

  return {
    withSteps,
    start: (runner, marks, now) =>
      leaseResults(runner, marks, () =>
        write(runner, start, [now, ...refColumns(marks), marks.map(({ startedAt }) => startedAt)]),
      ),
    extend: (runner, leases, leaseMs, now) =>
      leaseResults(runner, leases, () => runner.run(extend, [now, ...refColumns(leases), leaseMs])),
    async settle(runner, all, now, notes) {
      // If an id was enqueued again, its job may be in a batch twice. One statement cannot settle it twice.
      const results: (SettleResult | "busy")[] = [];
      let open = all.map((outcome, at) => ({ outcome, at }));
      while (open.length > 0) {
        const first = [...new Map(open.toReversed().map((each) => [each.outcome.id, each])).values()];
        const settled = await settleEach(
          runner,
          first.map(({ outcome }) => outcome),
          now,
          notes,
        );
        for (const [index, { at }] of first.entries()) results[at] = settled[index] ?? "lost";
        open = first.length === open.length ? [] : open.filter((each) => !first.includes(each));
      }
      return results;
    },
    async settleIn(runner, outcome, note, now) {
      // In a separate statement, so that the next ones see the row as it is after the lock was granted.
      const [locked] = await runner.run(lock, [outcome.id, outcome.fence]);
      if (locked === undefined) return { result: "lost", notes: [] };
      if (note !== null) await keepNotes(runner, [note], now);
      const columns = outcomeColumns([outcome], outcome.fence, now);
      if (locked[0] === true) {
        const { done, notes } = readTied(await runner.run(tied.recorded, [...columns, ...tiedColumns([outcome])]));
        const [settled] = done;
        return { result: settled === undefined ? "lost" : resultOf(outcome, settled[1]), notes };
      }
      const [row] = await runner.run(outcome.keep ? finish.recorded : drop.recorded, columns);
      return { result: row === undefined ? "lost" : resultOf(outcome, row[1] as State), notes: [] };
    },
    note: keepNotes,
    stateOf,
  };
}

interface CurrentLease {
  fence: number;
  state: State;
}

function readCurrentLease([id, fence, state]: Row): [string, CurrentLease] {
  return [id as string, { fence: fence as number, state: state as State }];
}

function resultOf({ to }: Outcome, state: State | "awake"): SettleResult {
  if (state === "awake") return state;
  return state === to ? "applied" : "cancelled";
}

// A set of this size is forgotten: its only use is to save a statement.
const MAX_RECENT = 10_000;

/** Ids of jobs. */
export class RecentJobs {
  readonly #ids = new Set<string>();

  add(id: string): void {
    if (this.#ids.size >= MAX_RECENT) this.#ids.clear();
    this.#ids.add(id);
  }
  has(id: string): boolean {
    return this.#ids.has(id);
  }
  delete(id: string): void {
    this.#ids.delete(id);
  }
}

function byFence(outcomes: readonly Outcome[]): Map<number, Outcome[]> {
  const groups = new Map<number, Outcome[]>();
  for (const outcome of outcomes) {
    const group = groups.get(outcome.fence);
    if (group === undefined) groups.set(outcome.fence, [outcome]);
    else group.push(outcome);
  }
  return groups;
}

function refColumns(refs: readonly LeaseRef[]): [string[], number[]] {
  return [refs.map(({ id }) => id), refs.map(({ fence }) => fence)];
}

function outcomeColumns(outcomes: readonly Outcome[], fence: number, now: number | null): unknown[] {
  return [
    now,
    outcomes.map(({ id }) => id),
    fence,
    outcomes.map(({ to }) => to),
    orNull(outcomes, ({ output }) => output),
    outcomes.map(({ attempt }) => attempt),
    outcomes.map(({ releases }) => releases),
    orNull(outcomes, ({ startedAt }) => startedAt),
    orNull(outcomes, ({ error }) => clean(error?.message ?? null)),
    orNull(outcomes, ({ error }) => clean(error?.code ?? null)),
    outcomes.map(({ delayMs }) => delayMs),
    orNull(outcomes, ({ attemptRecord }) => (attemptRecord === null ? null : JSON.stringify(attemptRecord))),
    orNull(outcomes, ({ purgeMs }) => purgeMs),
    orNull(outcomes, ({ error }) => error?.fingerprint ?? null),
  ];
}

/** PostgreSQL cannot store NUL in text. An error that contains one is stored without it. */
function clean(text: string | null): string | null {
  return text === null ? null : text.replaceAll("\0", "");
}
