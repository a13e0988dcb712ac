import { Worker } from "node:worker_threads";
import { HoldfastError, StoreUnavailableError } from "../../../errors.js";
import type { Hint } from "../../../store.js";
import type { ConnectionOptions } from "./connection.js";
import { createExecutor, needsFileCheck, type Call, type CallResult } from "./executor.js";
import { unpackError } from "./errors.js";
import { isInPlace, movedFile } from "./file-guard.js";

/** Connects the store to its database connection: on a separate thread, or inline for `:memory:`. */
export interface Link {
  call(op: Call["op"], args: readonly unknown[], now: number | null): Promise<unknown>;
  watch(on: boolean): void;
}

interface PendingCall {
  resolve(value: unknown): void;
  reject(error: Error): void;
  /** The file was not in its place when the call was sent: its result counts only after the thread has verified the file. */
  needsVerification: boolean;
}

/**
 * Runs calls on the store's thread. With one message per call, both threads wait for each other: a drain runs 45,000 jobs/s,
 * while the same statements on one thread run 75,000. So all calls made in one run of synchronous code are sent as one message,
 * and claims are sent together with outcomes: 65,000 jobs/s (docs/decisions/0002). Results are matched to calls by number.
 */
export function threadLink(options: ConnectionOptions, onHints: (hints: Hint[]) => void): Link {
  const pending = new Map<number, PendingCall>();
  let unsentCalls: Call[] = [];
  let lastNumber = 0;
  let thread: Worker | undefined;
  let watching = false;

  function ensureThread(): Worker {
    if (thread !== undefined) return thread;
    const started = new Worker(new URL("./thread.js", import.meta.url), {
      workerData: options,
      name: "holdfast-sqlite",
      // Options of the process, such as --input-type, are for its own modules; some would end the thread.
      execArgv: [],
      // Messages are short-lived: a larger young generation would only hold 30 MB of memory that V8 never returns.
      resourceLimits: { maxYoungGenerationSizeMb: 8 },
    });
    started.on("message", ({ results, hints }: { results: CallResult[]; hints: Hint[] }) => {
      for (const result of results) resolveCall(result);
      if (hints.length > 0) onHints(hints);
    });
    started.on("error", (error) => drop(started, error));
    started.on("exit", () => drop(started, new Error("the store's thread ended")));
    // Only calls in flight keep the process alive: a script that has enqueued its jobs can simply end.
    started.unref();
    if (watching) started.postMessage({ watch: true });
    thread = started;
    return started;
  }

  /** The thread has ended: calls in flight are rejected, and the next call starts a new thread. */
  function drop(ended: Worker, cause: unknown): void {
    if (thread !== ended) return;
    thread = undefined;
    const error = new StoreUnavailableError(
      "the store's thread ended; the call may or may not have taken effect",
      cause,
    );
    for (const waiting of pending.values()) waiting.reject(error);
    pending.clear();
  }

  function resolveCall([n, value, error]: CallResult): void {
    const waiting = pending.get(n);
    if (waiting === undefined) return;
    pending.delete(n);
    if (pending.size === 0) thread?.unref();
    if (error !== undefined) waiting.reject(unpackError(error, options.file));
    else if (waiting.needsVerification) void resolveIfInPlace(waiting, value);
    else waiting.resolve(value);
  }

  async function resolveIfInPlace(waiting: PendingCall, value: unknown): Promise<void> {
    try {
      // The thread was closed meanwhile, so nothing can verify the file.
      if (thread === undefined) throw movedFile(options.file);
      await call("verify", [], null);
      waiting.resolve(value);
    } catch (error) {
      waiting.reject(error as Error);
    }
  }

  function call(op: Call["op"], args: readonly unknown[], now: number | null): Promise<unknown> {
    const n = ++lastNumber;
    return new Promise((resolve, reject) => {
      pending.set(n, { resolve, reject, needsVerification: false });
      unsentCalls.push({ n, op, args, now });
      if (unsentCalls.length === 1) queueMicrotask(send);
    });
  }

  function send(): void {
    const calls = unsentCalls;
    unsentCalls = [];
    const target = ensureThread();
    target.ref();
    target.postMessage({ calls });
    const { expectedFile = null } = options;
    const checked = calls.filter(({ op }) => needsFileCheck(op));
    // The moved-file check (see file-guard.ts) runs here, while the thread writes: on the thread it would add 20 µs to every
    // write. A call made after the file was moved is refused. A call in flight at that moment may succeed: its job is in the
    // file that was moved. See docs/decisions/0010.
    if (expectedFile === null || checked.length === 0 || isInPlace(expectedFile)) return;
    for (const { n } of checked) {
      const waiting = pending.get(n);
      if (waiting !== undefined) waiting.needsVerification = true;
    }
  }

  return {
    call,
    watch(on) {
      watching = on;
      if (on) ensureThread();
      thread?.postMessage({ watch: on });
    },
  };
}

/** Runs calls on the caller's thread, for `:memory:`: there is no disk and no other process to wait for. */
export function inlineLink(options: ConnectionOptions, onHints: (hints: Hint[]) => void): Link {
  const executor = createExecutor(options);
  let lastNumber = 0;
  return {
    async call(op, args, now) {
      const { results, hints } = executor.execute([{ n: ++lastNumber, op, args, now }]);
      const [result] = results;
      if (hints.length > 0) queueMicrotask(() => onHints(hints));
      if (result === undefined) throw new HoldfastError("STORE_ERROR", `no result for ${op}`);
      if (result[2] !== undefined) throw unpackError(result[2], options.file);
      return result[1];
    },
    watch() {},
  };
}
