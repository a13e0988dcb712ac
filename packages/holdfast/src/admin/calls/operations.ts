import type { BulkOptions } from "../../engine/client/changes.js";
import { newId } from "../../job/uuid.js";
import { messageOf } from "../../job/thrown.js";
import { ApiError } from "../http/api-error.js";
import type { OperationResult } from "../contract/api-types.js";

// Older finished operations are dropped.
const MAX_LISTED = 100;
const MAX_RUNNING = 4;
// Ids of unchanged jobs in a result.
const MAX_UNCHANGED = 20;

/** What an operation gets: a signal to stop, and functions that it reports its progress to. */
export interface RunOptions extends Required<BulkOptions> {
  onRequested: (count: number) => void;
  /** `reason`: why the job was not changed, if the action has reasons. */
  onUnchanged: (jobs: readonly { id: string; reason?: string }[]) => void;
}

export interface NewOperation {
  action: OperationResult["action"];
  actor: string;
  /** How many jobs to process; null: unknown. */
  total: number | null;
  /** Returns how many jobs it changed. */
  run: (options: RunOptions) => Promise<number>;
  /** Called when the operation is done, stopped or failed. */
  onEnd: (result: OperationResult) => Promise<void>;
}

interface Operation {
  result: OperationResult;
  stop: AbortController;
  end: Promise<void>;
}

/** Bulk changes, which may take longer than a request. They run in the background and report their progress. */
export class Operations {
  readonly #operations = new Map<string, Operation>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  start({ action, actor, total, run, onEnd }: NewOperation): OperationResult {
    const running = [...this.#operations.values()].filter(({ result }) => result.state === "running");
    if (running.length >= MAX_RUNNING) {
      throw new ApiError(
        429,
        "TOO_MANY_OPERATIONS",
        `${MAX_RUNNING} operations are running already; wait for one to finish, or stop one`,
        {
          headers: { "retry-after": "5" },
        },
      );
    }
    this.#dropFinished();
    const result: OperationResult = {
      id: newId(this.#now()),
      action,
      state: "running",
      examined: 0,
      changed: 0,
      requested: 0,
      unchanged: [],
      reasons: {},
      total,
      actor,
      startedAt: this.#time(),
      endedAt: null,
      error: null,
    };
    const stop = new AbortController();
    const options: RunOptions = {
      signal: stop.signal,
      onRequested: (count) => void (result.requested += count),
      onUnchanged(jobs) {
        const named = jobs.slice(0, MAX_UNCHANGED - result.unchanged.length);
        result.unchanged = [...result.unchanged, ...named.map(({ id }) => id)];
        const reasons = named.flatMap(({ id, reason }) => (reason === undefined ? [] : [[id, reason] as const]));
        result.reasons = { ...result.reasons, ...Object.fromEntries(reasons) };
      },
      onProgress: (progress: { examined: number; changed: number }) => void Object.assign(result, progress),
    };
    const end = run(options)
      .then((changed): Partial<OperationResult> => ({ changed, state: "done" }))
      .catch((error: unknown): Partial<OperationResult> => {
        if (stop.signal.aborted) return { state: "stopped" };
        return { state: "failed", error: messageOf(error) };
      })
      .then(async (outcome) => {
        const last = { ...outcome, endedAt: this.#time() };
        // Recorded in the audit log before callers can see that it has ended.
        await onEnd({ ...result, ...last });
        Object.assign(result, last);
      });
    this.#operations.set(result.id, { result, stop, end });
    return { ...result };
  }

  list(): OperationResult[] {
    return [...this.#operations.values()].map(({ result }) => ({ ...result })).toReversed();
  }

  get(id: string): OperationResult {
    return { ...this.#find(id).result };
  }

  /** Stops after the current chunk of jobs. */
  async stop(id: string): Promise<OperationResult> {
    const { result, stop, end } = this.#find(id);
    stop.abort();
    await end;
    return { ...result };
  }

  async close(): Promise<void> {
    const all = [...this.#operations.values()];
    for (const { stop } of all) stop.abort();
    await Promise.all(all.map(({ end }) => end));
  }

  #find(id: string): Operation {
    const found = this.#operations.get(id);
    if (found === undefined) {
      throw new ApiError(
        404,
        "OPERATION_NOT_FOUND",
        `operation ${id} not found; a server lists only its own last ${MAX_LISTED} operations`,
      );
    }
    return found;
  }

  #dropFinished(): void {
    const finished = [...this.#operations].filter(([, { result }]) => result.state !== "running");
    for (const [id] of finished.slice(0, Math.max(0, this.#operations.size - MAX_LISTED + 1))) {
      this.#operations.delete(id);
    }
  }

  #time(): string {
    return new Date(this.#now()).toISOString();
  }
}
