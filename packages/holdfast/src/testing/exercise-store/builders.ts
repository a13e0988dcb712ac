import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { newId } from "../../job/uuid.js";
import type { State } from "../../job/state.js";
import type {
  AttemptRecord,
  AuditEntry,
  ClaimedJob,
  ClaimRequest,
  ErrorGroupRecord,
  HistoryRecord,
  InsertResult,
  NewJob,
  OperationRecord,
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
/** The fingerprint of the failures of these cases. */
export const FINGERPRINT = "00c0ffee00c0ffee";

/** A job that is due now. Ids increase with every call. */
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
    parent: null,
    settings: null,
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

/** Inserts one job that must be new. Returns its id. */
export async function add(store: Store, overrides: Partial<NewJob> = {}): Promise<string> {
  const job = newJob(overrides);
  assert.deepEqual(await insertOne(store, job), { status: "inserted" });
  return job.id;
}

/** Inserts jobs that must all be new. Returns their ids. */
export async function addAll(store: Store, jobs: readonly NewJob[]): Promise<string[]> {
  const results = await insertAll(store, jobs);
  for (const result of results) assert.deepEqual(result, { status: "inserted" });
  return jobs.map((job) => job.id);
}

/** Inserts like the engine: tries again while a result is `busy`. */
export async function insertAll(store: Store, jobs: readonly NewJob[]): Promise<InsertResult[]> {
  const results = await store.insert(jobs);
  assert.equal(results.length, jobs.length, "insert returns a result per job");
  return Promise.all(
    results.map(async (result, at) => (result === "busy" ? insertOne(store, jobs[at] as NewJob) : result)),
  );
}

export async function insertOne(store: Store, job: NewJob): Promise<InsertResult> {
  const [result, ...rest] = await insertAll(store, [job]);
  assert.deepEqual(rest, []);
  assert.ok(result !== undefined, "insert returns a result per job");
  return result;
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

/** Claims one job, which must exist. */
export async function claimOne(store: Store, overrides: Partial<ClaimRequest> = {}): Promise<ClaimedJob> {
  const [job] = await claim(store, { limit: 1, ...overrides });
  assert.ok(job !== undefined, "there should be a job to claim");
  return job;
}

export async function assertNothingToClaim(store: Store, overrides: Partial<ClaimRequest> = {}): Promise<void> {
  assert.deepEqual(await claimIds(store, overrides), []);
}

/** The outcome that the engine would report. */
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
    purgeMs: null,
    ...overrides,
  };
}

/** Settles like the engine: tries again while a result is `busy`. */
export async function settleAll(store: Store, outcomes: readonly Outcome[]): Promise<SettleResult[]> {
  const results = await store.settle(outcomes);
  assert.equal(results.length, outcomes.length, "settle returns a result per outcome");
  return Promise.all(
    results.map(async (result, at) => (result === "busy" ? settleOne(store, outcomes[at] as Outcome) : result)),
  );
}

export async function settleOne(store: Store, outcome: Outcome): Promise<SettleResult> {
  const [result, ...rest] = await settleAll(store, [outcome]);
  assert.deepEqual(rest, []);
  assert.ok(result !== undefined, "settle returns a result per outcome");
  return result;
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

/** A failure as the engine would report it. */
export function failureOf(job: ClaimedJob, message: string, overrides: Partial<Outcome> = {}): Outcome {
  return outcomeOf(job, "failed", {
    error: { message, code: "E_TEST", fingerprint: FINGERPRINT },
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

/** Creates a job in the given state, in a queue without other jobs. */
export async function jobIn(store: Store, state: State, overrides: Partial<NewJob> = {}): Promise<string> {
  const id = await add(store, { queue: `for ${state} ${newId(Date.now())}`, ...overrides });
  if (state === "pending") return id;
  const { queue } = await recordOf(store, id);
  const job = await claimOne(store, { queues: [queue] });
  assert.equal(job.id, id, "jobIn needs a separate queue");
  if (state === "claimed") return id;
  assert.deepEqual(await store.start([{ id, fence: job.fence, startedAt: 0 }]), ["kept"]);
  if (state !== "running") await finish(store, job, state);
  return id;
}

/** The current lease of a leased job. */
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
    version: "1.2.3",
    jobs: [{ id: "018f4d2e-7b3a-7c11-8a55-00000000000a", type: "mail" }],
    ...overrides,
  };
}

/** An operation. Ids increase with every call. */
export function newOperation(overrides: Partial<OperationRecord> = {}): OperationRecord {
  return { id: newId(Date.now()), startedAt: 1_700_000_000_000, summary: "{}", plan: "{}", ...overrides };
}

/** An audit entry. Ids increase with every call. */
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

/** A group of one failed attempt. */
export function newErrorGroup(overrides: Partial<ErrorGroupRecord> = {}): ErrorGroupRecord {
  return {
    fingerprint: FINGERPRINT,
    type: "mail",
    name: "TypeError",
    code: null,
    message: "order <number> failed",
    frame: "send (dist/mail.js)",
    count: 1,
    firstAt: 1_700_000_000_000,
    lastAt: 1_700_000_000_000,
    job: newId(Date.now()),
    example: "order 5 failed",
    ...overrides,
  };
}

export function newHistoryRecord(overrides: Partial<HistoryRecord> = {}): HistoryRecord {
  return { resolution: "minute", at: 1_700_000_040_000, writer: "w1", data: '{"counts":[]}', ...overrides };
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
