import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Timer } from "../../clock.js";
import { recordAudit } from "../../engine/client/audit.js";
import { engineOf, type Holdfast } from "../../engine/client/holdfast.js";
import type { EngineContext } from "../../engine/context.js";
import { ClosedError, isOutage, StoreUnreadableError } from "../../errors.js";
import { newId } from "../../job/uuid.js";
import { messageOf } from "../../job/thrown.js";
import type { StoredOperation } from "../../store.js";
import type { OperationResult } from "../contract/api-types.js";
import { ApiError, errorResultOf, INTERNAL_ERROR } from "../http/api-error.js";
import { auditEntryForEnd } from "./audit-entry.js";
import {
  auditTarget,
  newOperationRecord,
  newSummary,
  operationResult,
  type OperationEnding,
  type OperationPlan,
  type OperationSummary,
} from "./operation-plan.js";
import { readPlan, readSummary } from "./read-operation.js";
import { stepsOf, type Step } from "./operation-run.js";

/** Options that tests change. */
export interface OperationsOptions {
  /** How long another server waits until it continues an operation whose server is gone. */
  leaseMs: number;
  /**
   * False, for the CLI: it continues no operations of others, and its own end with it, because no server may be running that would
   * continue them.
   */
  isServer: boolean;
}
export const OPERATION_LEASE_MS = 15_000;

// Running at once on one server. Those with a rate mostly wait.
const MAX_RUNNING = { fast: 4, slow: 20 };
const KEPT = { ms: 7 * 86_400_000, count: 200 };
// How often a server asks for operations whose server is gone.
const RESUME_EVERY_MS = 30_000;
// The progress is written after a chunk if this much time has passed. A little less than a second, the time of a chunk with a rate.
const SAVE_AFTER_MS = 900;
// While an operation waits, or works on a long chunk, its lease is extended this often: it learns of a stop by another server then.
const KEEP_MS = 3_000;
const MIN_LEASE_WRITES = 4;
// How long `stop` waits for an operation that another server runs.
const STOP_WAIT_MS = 5_000;
const STOP_POLL_MS = 200;

export interface NewOperation {
  plan: OperationPlan;
  /** How many jobs to process; null: unknown. */
  total: number | null;
  /** When the start is in the audit log: the end is recorded after it. */
  startRecorded: Promise<void>;
}

/** An operation that this server runs. */
interface Running {
  stored: StoredOperation;
  plan: OperationPlan;
  summary: OperationSummary;
  /** Aborted by `stop`, by `close`, and when the lease is lost. */
  interrupt: AbortController;
  stopRequested: boolean;
  isLost: boolean;
  /** This server gives it up: its lease is no longer extended. */
  isReleased: boolean;
  /** The last write of the progress: a later one must not be overtaken. */
  saving: Promise<unknown>;
  end: Promise<void>;
}

/**
 * Bulk changes, which may take longer than a request. They are kept in the store: every server lists them and can stop them. The
 * server that runs one holds a lease. If that server is gone, another one claims the operation and continues at the stored position,
 * so jobs changed since the last write of the progress are examined again; each change is checked by the store, so that is harmless.
 */
export class Operations {
  readonly #hf: Holdfast;
  readonly #engine: EngineContext;
  readonly #options: OperationsOptions;
  readonly #onError: (error: unknown) => void;
  readonly #process = `${hostname()}:${process.pid}`;
  readonly #running = new Map<string, Running>();
  /** Operations that are about to run, without and with a rate. */
  readonly #starting = { fast: 0, slow: 0 };
  /** Why operations of the CLI failed whose end could not be stored. */
  readonly #failed = new Map<string, OperationSummary>();
  #timer: Timer | null = null;
  #resuming: Promise<void> | null = null;
  #isClosed = false;

  constructor(hf: Holdfast, options: OperationsOptions, onError: (error: unknown) => void) {
    this.#hf = hf;
    this.#engine = engineOf(hf);
    this.#options = options;
    this.#onError = onError;
    if (options.isServer) this.#resumePeriodically();
  }

  async start(operation: NewOperation): Promise<OperationResult> {
    const kind = kindOf(operation.plan);
    const max = MAX_RUNNING[kind];
    const running = [...this.#running.values()].filter(({ plan }) => kindOf(plan) === kind);
    if (running.length + this.#starting[kind] >= max) {
      throw new ApiError(
        429,
        "TOO_MANY_OPERATIONS",
        `${max} operations are running already; wait for one to finish, or stop one`,
        { headers: { "retry-after": "5" } },
      );
    }
    this.#starting[kind]++;
    try {
      return await this.#start(operation);
    } finally {
      this.#starting[kind]--;
    }
  }

  async #start({ plan, total, startRecorded }: NewOperation): Promise<OperationResult> {
    const { store, clock, redact } = this.#engine;
    const startedAt = clock.now();
    const id = newId(startedAt);
    const summary = newSummary(plan, { total, process: this.#process, redact });
    const record = newOperationRecord(id, startedAt, plan, summary);
    const lease = this.#newLease();
    await store.purgeOperations({ before: startedAt - KEPT.ms, keep: KEPT.count });
    await store.putOperation(record, lease);
    const stored: StoredOperation = {
      id,
      startedAt,
      summary: record.summary,
      state: "running",
      endedAt: null,
      stopRequested: false,
      owner: lease.owner,
      leaseUntil: startedAt + lease.leaseMs,
      abandoned: false,
    };
    this.#begin(stored, plan, summary, startRecorded);
    return operationResult(stored, { ...summary });
  }

  /** Newest first. */
  async list(): Promise<OperationResult[]> {
    const { store, clock } = this.#engine;
    const stored = await store.operations();
    if (stored.some(({ abandoned }) => abandoned)) this.#resume();
    const before = clock.now() - KEPT.ms;
    const kept = stored.filter(({ endedAt }) => endedAt === null || endedAt >= before);
    const ended = kept.filter(({ state }) => state !== "running").slice(0, KEPT.count);
    const listed = kept.filter((each) => each.state === "running" || ended.includes(each));
    return listed.map((each) => this.#shown(each)).filter((each) => each !== null);
  }

  async get(id: string): Promise<OperationResult> {
    return (await this.#find(id)).shown;
  }

  /** Stops after the current chunk of jobs. */
  async stop(id: string): Promise<OperationResult> {
    const { store, clock } = this.#engine;
    const own = this.#running.get(id);
    if (own !== undefined) {
      // Stored too: after an outage, another server must not continue it.
      await store.stopOperation(id);
      own.stopRequested = true;
      own.interrupt.abort();
      await own.end;
      return this.get(id);
    }
    const { stored } = await this.#find(id);
    if (stored.state !== "running" || !(await store.stopOperation(id))) return this.get(id);
    // If its server is gone, this one ends it.
    if (stored.abandoned) this.#resume();
    const until = clock.monotonic() + STOP_WAIT_MS;
    for (;;) {
      const { shown } = await this.#find(id);
      if (shown.state !== "running" || clock.monotonic() >= until) return shown;
      await this.#pause(STOP_POLL_MS);
    }
  }

  /** Releases the operations that this server runs, for other servers. Those of the CLI end. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    await this.#resuming;
    const all = [...this.#running.values()];
    for (const { interrupt } of all) interrupt.abort();
    await Promise.all(all.map(({ end }) => end));
  }

  async #find(id: string): Promise<{ stored: StoredOperation; shown: OperationResult }> {
    const stored = isUuid(id) ? await this.#engine.store.getOperation(id) : null;
    const shown = stored === null ? null : this.#shown(stored);
    if (stored !== null && shown !== null) return { stored, shown };
    const kept = `ended operations are listed for 7 days, the last ${KEPT.count} at most`;
    throw new ApiError(404, "OPERATION_NOT_FOUND", `operation ${id} not found; ${kept}`);
  }

  /** The progress of an operation that this server runs is more recent here. Null: what is stored cannot be read. */
  #shown(stored: StoredOperation): OperationResult | null {
    const isRunning = stored.state === "running";
    const failed = isRunning ? this.#failed.get(stored.id) : undefined;
    if (failed !== undefined) return operationResult({ ...stored, state: "failed" }, failed);
    const live = isRunning ? this.#running.get(stored.id)?.summary : undefined;
    const summary = live ?? readSummary(stored.summary);
    return summary === null ? null : operationResult(stored, summary);
  }

  #newLease(): { owner: string; leaseMs: number } {
    return { owner: randomUUID(), leaseMs: this.#options.leaseMs };
  }

  #resumePeriodically(): void {
    this.#resume();
    this.#timer = this.#engine.clock.after(RESUME_EVERY_MS, () => this.#resumePeriodically(), { background: true });
  }

  /** Claims operations whose server is gone, and continues them. */
  #resume(): void {
    if (this.#isClosed || !this.#options.isServer) return;
    this.#resuming ??= this.#claimAbandoned()
      .catch((error: unknown) => {
        // A server without the privileges of an admin runs no operations; nor does one whose client is closed.
        if (error instanceof StoreUnreadableError || error instanceof ClosedError) this.#timer?.cancel();
        else this.#engine.events.emit("outage", { doing: "operations", error });
      })
      .finally(() => (this.#resuming = null));
  }

  async #claimAbandoned(): Promise<void> {
    const { store, logger } = this.#engine;
    while (this.#running.size < MAX_RUNNING.fast + MAX_RUNNING.slow && !this.#isClosed) {
      const claimed = await store.claimOperation(this.#newLease());
      if (claimed === null) return;
      const { plan: planText, ...stored } = claimed;
      const { id, owner } = stored;
      const [plan, summary] = [readPlan(planText), readSummary(stored.summary)];
      if (plan === null || summary === null) {
        // It would be claimed again and again, before those behind it.
        logger.error({ operation: id }, "ended an operation as failed: what is stored of it cannot be read");
        await store.endOperation({ id, owner, state: "failed", summary: failedSummary(stored.summary) });
        continue;
      }
      logger.info({ operation: id }, "continues an operation whose server is gone");
      this.#begin(stored, plan, { ...summary, process: this.#process }, Promise.resolve());
    }
  }

  #begin(stored: StoredOperation, plan: OperationPlan, summary: OperationSummary, startRecorded: Promise<void>): void {
    const interrupt = new AbortController();
    const { stopRequested } = stored;
    const done = Promise.resolve();
    const running: Running = {
      stored,
      plan,
      summary,
      interrupt,
      stopRequested,
      isLost: false,
      isReleased: false,
      saving: done,
      end: done,
    };
    this.#running.set(stored.id, running);
    const stopKeeping = this.#keepLease(running);
    running.end = this.#run(running, startRecorded)
      .catch((error: unknown) => {
        if (!this.#options.isServer) this.#failed.set(stored.id, { ...summary, error: messageOf(error) });
        // The lease expires, and this or another server continues.
        if (isOutage(error)) this.#engine.events.emit("outage", { doing: "operations", error });
        else if (!(error instanceof ClosedError)) this.#onError(error);
      })
      .finally(() => {
        stopKeeping();
        // Unless this server has claimed it again meanwhile.
        if (this.#running.get(stored.id) === running) this.#running.delete(stored.id);
      });
  }

  /** Extends the lease until the returned function is called. */
  #keepLease(running: Running): () => void {
    const { clock } = this.#engine;
    const everyMs = Math.min(KEEP_MS, this.#options.leaseMs / MIN_LEASE_WRITES);
    // A failed write is tried again; if all fail, the lease expires.
    const keep = (): void => {
      if (running.isReleased) return;
      void this.#save(running, this.#options.leaseMs).catch(() => {});
      timer = clock.after(everyMs, keep, { background: true });
    };
    let timer = clock.after(everyMs, keep, { background: true });
    return () => timer.cancel();
  }

  async #run(running: Running, startRecorded: Promise<void>): Promise<void> {
    const { summary } = running;
    if (summary.ending !== null) return this.#finish(running, summary.ending.state, startRecorded);
    let isDone: boolean;
    try {
      isDone = await this.#takeSteps(running);
    } catch (error) {
      if (this.#options.isServer && (isOutage(error) || error instanceof ClosedError)) throw error;
      summary.error = this.#describe(error);
      return this.#finish(running, "failed", startRecorded);
    }
    if (running.isLost) return;
    if (isDone) return this.#finish(running, "done", startRecorded);
    running.isReleased = !running.stopRequested && this.#options.isServer;
    if (running.isReleased) await this.#save(running, 0);
    else await this.#finish(running, "stopped", startRecorded);
  }

  /** What callers see of an error. As in a response, an internal one is only logged: it may name files and hosts. */
  #describe(error: unknown): string {
    const known = errorResultOf(error);
    if (known !== null) return known.body.error.message;
    this.#onError(error);
    return this.#options.isServer ? INTERNAL_ERROR : messageOf(error);
  }

  /** Returns false if it was interrupted. */
  async #takeSteps(running: Running): Promise<boolean> {
    const { clock } = this.#engine;
    const { plan, summary, interrupt, stored } = running;
    const { signal } = interrupt;
    if (running.stopRequested) return false;
    let step: Step | null = null;
    // A later server begins a new second: after a crash, the rate may be exceeded by the jobs of one step.
    let notBefore = clock.monotonic();
    let savedAt = Number.NEGATIVE_INFINITY;
    while (!signal.aborted) {
      const left = plan.limit === null ? Number.POSITIVE_INFINITY : plan.limit - summary.found;
      if (left <= 0) return true;
      try {
        step ??= await stepsOf(this.#hf, plan, summary, stored.startedAt, signal);
      } catch (error) {
        if (!signal.aborted) throw error;
      }
      if (signal.aborted || step === null) break;
      const most = plan.rate === null ? left : Math.min(left, Math.max(1, Math.floor(plan.rate)));
      const { found, done } = await step(most);
      if (done) return true;
      // With a limit, a server that continues must know how many were changed.
      if (plan.limit !== null || clock.monotonic() - savedAt >= SAVE_AFTER_MS) {
        await this.#save(running, this.#options.leaseMs);
        savedAt = clock.monotonic();
      }
      if (plan.rate === null) continue;
      notBefore = Math.max(notBefore, clock.monotonic() - 1_000) + (found / plan.rate) * 1_000;
      const waitMs = notBefore - clock.monotonic();
      if (waitMs > 0 && !signal.aborted) await this.#pause(waitMs, signal);
    }
    return false;
  }

  /** Writes the progress. Interrupts the operation if another server has claimed it, or requested a stop. */
  #save(running: Running, leaseMs: number): Promise<void> {
    const { id, owner } = running.stored;
    const write = async (): Promise<void> => {
      const summary = JSON.stringify(running.summary);
      const saved = await this.#engine.store.saveOperation({ id, owner, leaseMs, summary });
      if (saved === "kept") return;
      if (saved === "lost") running.isLost = true;
      else running.stopRequested = true;
      running.interrupt.abort();
    };
    const saving = running.saving.then(write, write);
    running.saving = saving;
    return saving;
  }

  async #finish(running: Running, state: OperationEnding["state"], startRecorded: Promise<void>): Promise<void> {
    const { stored, plan, summary } = running;
    const { clock, redact, store } = this.#engine;
    await startRecorded;
    // Later than that of the start, so that it comes after it in the log.
    const ending = (summary.ending ??= { state, auditId: newId(clock.now()) });
    // Another server may have claimed it: then that one records the end.
    await this.#save(running, this.#options.leaseMs);
    if (running.isLost) return;
    const result = { ...operationResult(stored, summary), state: ending.state };
    const entry = auditEntryForEnd(result, { ...plan, auditId: ending.auditId }, auditTarget(plan, redact));
    // Recorded in the audit log before callers can see that it has ended.
    await recordAudit(this.#engine, entry).catch(this.#onError);
    const { id, owner } = stored;
    await running.saving.catch(() => {});
    await store.endOperation({ id, owner, state: ending.state, summary: JSON.stringify(summary) });
  }

  /** Waits, at most until the signal is aborted. */
  #pause(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        timer.cancel();
        signal?.removeEventListener("abort", end);
        resolve();
      };
      const timer = this.#engine.clock.after(ms, end, { background: true });
      signal?.addEventListener("abort", end, { once: true });
    });
  }
}

/** The summary of an operation whose plan cannot be read. */
function failedSummary(text: string): string {
  const summary = readSummary(text);
  return summary === null ? text : JSON.stringify({ ...summary, error: "what is stored of it cannot be read" });
}

function kindOf({ rate }: OperationPlan): "fast" | "slow" {
  return rate === null ? "fast" : "slow";
}

function isUuid(id: string): boolean {
  return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id);
}
