import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { newId } from "../../job/id.js";
import type { State } from "../../job/state.js";
import type {
  AttemptRecord,
  AuditEntry,
  ClaimedJob,
  ClaimRequest,
  InsertResult,
  NewJob,
  Outcome,
  SettleResult,
  Store,
  StoredJob,
  TokenRecord,
  UniqueKey,
  WorkerRecord,
} from "../../store.js";

export const SECOND = 1_000;
export const MINUTE: number = 60 * SECOND;
export const LEASE_MS: number = 30 * SECOND;
/** More bytes than any case claims. */
const PLENTY = 64 * 1024 * 1024;

/** A job that is due at once. Ids grow in the order of the calls. */
export function newJob(overrides: Partial<NewJob> = {}): NewJob {
  return {
    id: newId(Date.now()),
    type: "mail",
    queue: "default",
    priority: 0,
    user: null,
    input: "{}",
    maxAttempts: 4,
    runAt: null,
    delayMs: 0,
    expiresAt: null,
    tags: [],
    unique: null,
    schedule: null,
    trace: null,
    ...overrides,
  };
}

export function newJobs(count: number, overrides: Partial<NewJob> = {}): NewJob[] {
  return Array.from({ length: count }, () => newJob(overrides));
}

export function key(name: string, overrides: Partial<UniqueKey> = {}): UniqueKey {
  return { key: name, scope: "live", periodMs: 0, onConflict: "keep", ...overrides };
}

/** Inserts one job that must be new, and gives its id. */
export async function add(store: Store, overrides: Partial<NewJob> = {}): Promise<string> {
  const job = newJob(overrides);
  assert.deepEqual(await insertOne(store, job), { status: "inserted" });
  return job.id;
}

/** Inserts jobs that must all be new, and gives their ids. */
export async function addAll(store: Store, jobs: readonly NewJob[]): Promise<string[]> {
  const answers = await insertAll(store, jobs);
  for (const answer of answers) assert.deepEqual(answer, { status: "inserted" });
  return jobs.map((job) => job.id);
}

/** Inserts as the engine does: a job whose key somebody is about to take is asked again. */
export async function insertAll(store: Store, jobs: readonly NewJob[]): Promise<InsertResult[]> {
  const answers = await store.insert(jobs);
  assert.equal(answers.length, jobs.length, "insert answers each job");
  return Promise.all(
    answers.map(async (answer, at) => (answer === "busy" ? insertOne(store, jobs[at] as NewJob) : answer)),
  );
}

export async function insertOne(store: Store, job: NewJob): Promise<InsertResult> {
  const [answer, ...rest] = await insertAll(store, [job]);
  assert.deepEqual(rest, []);
  assert.ok(answer !== undefined, "insert answers each job");
  return answer;
}

export function claimRequest(overrides: Partial<ClaimRequest> = {}): ClaimRequest {
  return { queues: null, types: null, limit: 1_000, bytes: PLENTY, worker: "w1", leaseMs: LEASE_MS, ...overrides };
}

export async function claim(store: Store, overrides: Partial<ClaimRequest> = {}): Promise<ClaimedJob[]> {
  return (await store.claim(claimRequest(overrides))).jobs;
}

export async function claimIds(store: Store, overrides: Partial<ClaimRequest> = {}): Promise<string[]> {
  return (await claim(store, overrides)).map((job) => job.id);
}

/** Claims one job; there must be one. */
export async function claimOne(store: Store, overrides: Partial<ClaimRequest> = {}): Promise<ClaimedJob> {
  const [job] = await claim(store, { limit: 1, ...overrides });
  assert.ok(job !== undefined, "there should be a job to claim");
  return job;
}

export async function assertNothingToClaim(store: Store, overrides: Partial<ClaimRequest> = {}): Promise<void> {
  assert.deepEqual(await claimIds(store, overrides), []);
}

/** What an engine would say of a lease that ended so. */
export function outcomeOf(job: ClaimedJob, to: Outcome["to"], overrides: Partial<Outcome> = {}): Outcome {
  return {
    id: job.id,
    fence: job.fence,
    to,
    output: to === "completed" ? "{}" : null,
    delayMs: 0,
    attempt: to === "pending" ? job.previous.attempt : job.attempt,
    releases: job.releases,
    error: null,
    startedAt: null,
    attemptRecord: null,
    keep: true,
    keepMs: null,
    ...overrides,
  };
}

/** Settles as the engine does: an outcome whose row somebody else has is tried again. */
export async function settleAll(store: Store, outcomes: readonly Outcome[]): Promise<SettleResult[]> {
  const answers = await store.settle(outcomes);
  assert.equal(answers.length, outcomes.length, "settle answers each outcome");
  return Promise.all(
    answers.map(async (answer, at) => (answer === "busy" ? settleOne(store, outcomes[at] as Outcome) : answer)),
  );
}

export async function settleOne(store: Store, outcome: Outcome): Promise<SettleResult> {
  const [answer, ...rest] = await settleAll(store, [outcome]);
  assert.deepEqual(rest, []);
  assert.ok(answer !== undefined, "settle answers each outcome");
  return answer;
}

/** Settles a lease that must be held. */
export async function finish(
  store: Store,
  job: ClaimedJob,
  to: Outcome["to"] = "completed",
  overrides: Partial<Outcome> = {},
): Promise<void> {
  assert.equal(await settleOne(store, outcomeOf(job, to, overrides)), "applied");
}

/** A failure as an engine would report it. */
export function failureOf(job: ClaimedJob, message: string, overrides: Partial<Outcome> = {}): Outcome {
  return outcomeOf(job, "failed", {
    error: { message, code: "E_TEST" },
    attemptRecord: attemptRecord(job.attempt, message),
    ...overrides,
  });
}

export function attemptRecord(attempt: number, message: string): AttemptRecord {
  return {
    attempt,
    worker: "w1",
    claimedAt: 1_000 + attempt,
    startedAt: 2_000 + attempt,
    endedAt: 3_000 + attempt,
    error: {
      message,
      code: "E_TEST",
      stack: `Error: ${message}\n    at handler`,
      cause: {
        message: "a cause: it's \u0000 🧵",
        code: null,
        stack: null,
        cause: { message: "", code: "1", stack: null },
      },
      data: { status: 503, list: [1, "two", null, { deep: true }], odd: "\u0000 naïve" },
    },
  };
}

/** The record of a job that must exist. */
export async function recordOf(store: Store, id: string): Promise<StoredJob> {
  const record = await store.get(id);
  assert.ok(record !== null, `job ${id} should exist`);
  return record;
}

export async function stateOf(store: Store, id: string): Promise<State> {
  return (await recordOf(store, id)).state;
}

/** A new job brought to the given state, in a queue where nothing else is claimed on the way. */
export async function jobIn(store: Store, state: State, overrides: Partial<NewJob> = {}): Promise<string> {
  const id = await add(store, { queue: `for ${state} ${newId(Date.now())}`, ...overrides });
  if (state === "pending") return id;
  const { queue } = await recordOf(store, id);
  const job = await claimOne(store, { queues: [queue] });
  assert.equal(job.id, id, "jobIn needs a queue of its own");
  if (state === "claimed") return id;
  assert.deepEqual(await store.start([{ id, fence: job.fence, startedAt: 0 }]), ["kept"]);
  if (state !== "running") await finish(store, job, state);
  return id;
}

/** The lease of a job that is leased, as its worker knows it. */
export async function leaseOf(store: Store, id: string): Promise<{ id: string; fence: number }> {
  return { id, fence: (await recordOf(store, id)).fence };
}

export function workerRecord(overrides: Partial<WorkerRecord> = {}): WorkerRecord {
  return {
    id: "w1",
    queues: ["default"],
    types: ["mail", "report"],
    schedules: ["digest"],
    concurrency: 4,
    running: 2,
    host: "host-1",
    pid: 4242,
    startedAt: 1_700_000_000_000,
    ...overrides,
  };
}

/** An entry of the audit log. Ids grow in the order of the calls. */
export function newEntry(overrides: Partial<AuditEntry> = {}): AuditEntry {
  return {
    id: newId(Date.now()),
    actor: "token:deploy",
    action: "jobs.retry",
    target: null,
    count: 1,
    detail: null,
    keepMs: null,
    ...overrides,
  };
}

export function newTokenRecord(overrides: Partial<TokenRecord> = {}): TokenRecord {
  return {
    id: randomBytes(8).toString("hex"),
    name: "deploy",
    hash: randomBytes(32).toString("hex"),
    role: "operator",
    user: null,
    createdAt: 1_700_000_000_000,
    expiresAt: null,
    ...overrides,
  };
}
