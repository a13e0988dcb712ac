import type { Database } from "better-sqlite3";
import { isLeased, type State } from "../../../job/state.js";
import { eventTopic, jobTopic, TIES, wakesOf } from "../../../job/stored-step.js";
import type {
  EmitResult,
  InsertResult,
  JobSteps,
  LeaseRef,
  NewEvent,
  NewJob,
  StepFailure,
  StepKind,
  StepResult,
  StepState,
  StepWrite,
  StoredStep,
} from "../../../store.js";
import type { TopicEnd, Waits } from "./waits.js";

interface StepRow {
  name: string;
  member: number;
  place: number;
  kind: StepKind;
  state: StepState;
  fence: number;
  tries: number;
  topic: string | null;
  value: string | null;
  failure: string | null;
  started_at: number;
  ended_at: number | null;
  until: number | null;
}

const STEP = "name, member, place, kind, state, fence, tries, topic, value, failure, started_at, ended_at, until";

export interface StepOperations {
  read(job: string): JobSteps;
  save(writes: readonly StepWrite[], now: number): StepResult[];
  /** Failed steps of a job: those of kind `run` are deleted, and those that waited for a job wait again. */
  reopen(job: number, names: readonly string[]): void;
  openChildren(jobs: readonly string[], limit: number): string[];
  /** Keeps an event and ends up to `limit` waits for it. `done`: false if more may wait. */
  emit(event: NewEvent, limit: number, now: number): EmitResult & { done: boolean };
  purgeEvents(limit: number, now: number): number;
}

/** Steps of jobs, and the events that they wait for. */
export function stepOperations(
  db: Database,
  waits: Waits,
  insert: (jobs: readonly NewJob[], now: number) => InsertResult[],
): StepOperations {
  const leaseRow = db.prepare("SELECT seq, state, fence, cancel_at, ties FROM holdfast_jobs WHERE id = ?");
  const tiesOf = db.prepare("SELECT seq, ties FROM holdfast_jobs WHERE id = ?");
  const stepsOf = db.prepare(`SELECT ${STEP} FROM holdfast_steps WHERE job = ? ORDER BY place, member`);
  // In one snapshot: a wait that ends between the two must not count as known.
  const read = db.transaction((id: string): JobSteps => {
    const job = tiesOf.get(id) as { seq: number; ties: number | null } | undefined;
    if (job === undefined || job.ties === null) return { steps: [], wakes: 0 };
    return { steps: (stepsOf.all(job.seq) as StepRow[]).map(readStep), wakes: wakesOf(job.ties) };
  });
  const stepRow = db.prepare(`SELECT ${STEP} FROM holdfast_steps WHERE job = ? AND name = ? AND member = ?`);
  const write = db.prepare(
    `INSERT INTO holdfast_steps (job, ${STEP}, wake)
     VALUES (@job, @name, @member, @place, @kind, @state, @fence, @tries, @topic, @value, @failure, @started_at, @ended_at, @until, @wake)
     ON CONFLICT DO UPDATE SET kind = excluded.kind, state = excluded.state, fence = excluded.fence, tries = excluded.tries,
       topic = excluded.topic, value = excluded.value, failure = excluded.failure, ended_at = excluded.ended_at,
       until = excluded.until, wake = excluded.wake`,
  );
  const setHasSteps = db.prepare(`UPDATE holdfast_jobs SET ties = coalesce(ties, 0) | ${TIES.steps} WHERE seq = ?`);
  const deleteFailed = db.prepare(
    "DELETE FROM holdfast_steps WHERE job = ? AND name = ? AND state = 'failed' AND kind <> 'job'",
  );
  const waitAgain = db.prepare(
    "UPDATE holdfast_steps SET state = 'waiting', failure = NULL WHERE job = ? AND name = ? AND state = 'failed' AND kind = 'job'",
  );
  const children = db
    .prepare(
      `SELECT substr(topic, ${jobTopic("").length + 1}) FROM holdfast_steps INDEXED BY holdfast_steps_waiting
       WHERE job = (SELECT seq FROM holdfast_jobs WHERE id = ?) AND state = 'waiting' AND kind = 'job' LIMIT ?`,
    )
    .pluck();
  const keepEvent = db.prepare(
    `INSERT INTO holdfast_events (name, payload, at, keep_until) VALUES (@name, @payload, @now, @until)
     ON CONFLICT DO UPDATE SET payload = excluded.payload, at = excluded.at, keep_until = excluded.keep_until
     WHERE keep_until <= @now`,
  );
  const oldEvents = db.prepare(
    "DELETE FROM holdfast_events WHERE name IN (SELECT name FROM holdfast_events WHERE keep_until <= ? LIMIT ?)",
  );

  function held({ id, fence }: LeaseRef): { seq: number; cancel_at: number | null; ties: number | null } | undefined {
    const row = leaseRow.get(id) as
      | { seq: number; state: State; fence: number; cancel_at: number | null; ties: number | null }
      | undefined;
    return row !== undefined && row.fence === fence && isLeased(row.state) ? row : undefined;
  }

  function saveOne(step: StepWrite, now: number): StepResult {
    const job = held(step);
    if (job === undefined) return { status: "lost" };
    const status = job.cancel_at === null ? "kept" : "cancel";
    const before = stepRow.get(job.seq, step.name, step.member) as StepRow | undefined;
    if (before !== undefined && before.state !== "waiting") return { status, step: readStep(before) };
    if (step.child !== null) {
      const [inserted] = insert([step.child], now);
      if (inserted?.status === "refused") return { status: "refused", error: refusal(inserted) };
    }
    if (step.to === "waiting" && step.topic?.startsWith(jobTopic("")) === true)
      waits.await(step.topic.slice(jobTopic("").length));
    const end = step.to === "waiting" && step.topic !== null ? waits.endOf(step.topic, now) : null;
    const row = rowOf(step, before, end, now);
    write.run({ ...row, job: job.seq, wake: step.wake });
    if (job.ties === null || (job.ties & TIES.steps) === 0) setHasSteps.run(job.seq);
    return { status, step: readStep(row) };
  }

  return {
    read: (job) => read(job),
    save: (writes, now) =>
      writes.map((step) => {
        try {
          return saveOne(step, now);
        } catch (error) {
          // A row that the schema rejects fails alone. Any other error, such as a full disk, fails the whole batch.
          if (!String((error as { code?: unknown }).code).startsWith("SQLITE_CONSTRAINT")) throw error;
          return { status: "refused", error: (error as Error).message };
        }
      }),
    reopen(job, names) {
      for (const name of names) {
        deleteFailed.run(job, name);
        waitAgain.run(job, name);
      }
    },
    openChildren(jobs, limit) {
      const found: string[] = [];
      for (const job of jobs) {
        if (found.length >= limit) break;
        found.push(...(children.all(job, limit - found.length) as string[]));
      }
      return found;
    },
    emit({ name, payload, keepMs }, limit, now) {
      const first = keepEvent.run({ name, payload, now, until: now + keepMs }).changes > 0;
      const topic = eventTopic(name);
      const end = waits.endOf(topic, now);
      return { first, done: end === null || waits.endTopic(topic, end, limit, now) };
    },
    purgeEvents: (limit, now) => oldEvents.run(now, limit).changes,
  };
}

/** The row after a write. A wait that is stored again keeps the time at which it ends, unless it waits for its own retry. */
function rowOf(step: StepWrite, before: StepRow | undefined, end: TopicEnd | null, now: number): StepRow {
  const state = end === null ? step.to : end.failure === null ? "done" : "failed";
  const failure = end === null ? step.failure : end.failure;
  const keepsTime = before !== undefined && step.to === "waiting" && step.kind !== "run";
  return {
    name: step.name,
    member: step.member,
    place: before?.place ?? step.order,
    kind: step.kind,
    state,
    fence: step.fence,
    tries: step.tries,
    topic: step.topic,
    value: end === null ? step.value : end.value,
    failure: failure === null ? null : JSON.stringify(failure),
    started_at: before?.started_at ?? now,
    ended_at: state === "waiting" ? null : now,
    until: keepsTime ? before.until : step.forMs === null ? null : now + step.forMs,
  };
}

function readStep({ place, failure, started_at, ended_at, ...same }: StepRow): StoredStep {
  return {
    ...same,
    order: place,
    failure: failure === null ? null : (JSON.parse(failure) as StepFailure),
    startedAt: started_at,
    endedAt: ended_at,
  };
}

function refusal(result: InsertResult & { status: "refused" }): string {
  return result.reason === "not-stored" ? result.error : `its unique key is held by job ${result.of}`;
}
