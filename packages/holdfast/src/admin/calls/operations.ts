import type { BulkOptions } from "../../engine/client/changes.js";
import { newId } from "../../job/id.js";
import { messageOf } from "../../job/thrown.js";
import { ApiError } from "../http/api-error.js";
import type { OperationResult } from "../contract/api-types.js";

// Those that have ended are forgotten, the oldest first.
const KEPT = 100;
const AT_ONCE = 4;

export interface NewOperation {
  action: OperationResult["action"];
  actor: string;
  /** How many there are to look at; null if that is not known. */
  total: number | null;
  /** Does it, and says how many jobs it changed. */
  run: (options: Required<BulkOptions>) => Promise<number>;
  /** Called when it has ended, in whatever way. */
  ended: (answer: OperationResult) => Promise<void>;
}

/** Changes of many jobs, which take longer than a request may: they go on in the background, and tell how far they are. */
export class Operations {
  readonly #known = new Map<string, { answer: OperationResult; stop: AbortController; end: Promise<void> }>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  start({ action, actor, total, run, ended }: NewOperation): OperationResult {
    const running = [...this.#known.values()].filter(({ answer }) => answer.state === "running");
    if (running.length >= AT_ONCE) {
      throw new ApiError(
        429,
        "TOO_MANY_OPERATIONS",
        `${AT_ONCE} operations are running; wait for one to end, or stop one`,
        {
          headers: { "retry-after": "5" },
        },
      );
    }
    this.#forget();
    const answer: OperationResult = {
      id: newId(this.#now()),
      action,
      state: "running",
      looked: 0,
      changed: 0,
      total,
      actor,
      startedAt: this.#time(),
      endedAt: null,
      error: null,
    };
    const stop = new AbortController();
    const options = {
      signal: stop.signal,
      onProgress: (progress: { looked: number; changed: number }) => void Object.assign(answer, progress),
    };
    const end = run(options)
      .then((changed): Partial<OperationResult> => ({ changed, state: "done" }))
      .catch((error: unknown): Partial<OperationResult> => {
        if (stop.signal.aborted) return { state: "stopped" };
        return { state: "failed", error: messageOf(error) };
      })
      .then(async (how) => {
        const last = { ...how, endedAt: this.#time() };
        // Who sees that it has ended finds it in the audit log.
        await ended({ ...answer, ...last });
        Object.assign(answer, last);
      });
    this.#known.set(answer.id, { answer, stop, end });
    return { ...answer };
  }

  list(): OperationResult[] {
    return [...this.#known.values()].map(({ answer }) => ({ ...answer })).toReversed();
  }

  get(id: string): OperationResult {
    return { ...this.#find(id).answer };
  }

  /** Lets it end after the chunk that it is at. */
  async stop(id: string): Promise<OperationResult> {
    const { answer, stop, end } = this.#find(id);
    stop.abort();
    await end;
    return { ...answer };
  }

  async close(): Promise<void> {
    const all = [...this.#known.values()];
    for (const { stop } of all) stop.abort();
    await Promise.all(all.map(({ end }) => end));
  }

  #find(id: string): { answer: OperationResult; stop: AbortController; end: Promise<void> } {
    const found = this.#known.get(id);
    if (found === undefined) {
      throw new ApiError(
        404,
        "OPERATION_NOT_FOUND",
        `no operation ${id}; this server knows its own, and the last ${KEPT} of them`,
      );
    }
    return found;
  }

  #forget(): void {
    const over = [...this.#known].filter(([, { answer }]) => answer.state !== "running");
    for (const [id] of over.slice(0, Math.max(0, this.#known.size - KEPT + 1))) this.#known.delete(id);
  }

  #time(): string {
    return new Date(this.#now()).toISOString();
  }
}
