import { Worker } from "node:worker_threads";
import { HoldfastError, StoreUnavailableError } from "../../../errors.js";
import type { Hint } from "../../../store.js";
import type { ConnectionOptions } from "./connection.js";
import { createExecutor, isReliedOn, type Answer, type Call } from "./executor.js";
import { unpackError } from "./errors.js";
import { isInPlace, movedFile } from "./file-guard.js";

/** The way from the store to its connection: on a thread of its own, or inline for `:memory:`. */
export interface Link {
  call(op: Call["op"], args: readonly unknown[], now: number | null): Promise<unknown>;
  watch(on: boolean): void;
}

interface Pending {
  resolve(value: unknown): void;
  reject(error: Error): void;
  /** The file was not in its place: the answer counts once the thread has found that it is. */
  isDoubtful: boolean;
}

/** Calls made in one turn travel as one message; answers find their way back by number. */
export function threadLink(options: ConnectionOptions, onHints: (hints: Hint[]) => void): Link {
  const pending = new Map<number, Pending>();
  let outbox: Call[] = [];
  let lastNumber = 0;
  let thread: Worker | undefined;
  let watching = false;

  function ensureThread(): Worker {
    if (thread !== undefined) return thread;
    const started = new Worker(new URL("./thread.js", import.meta.url), {
      workerData: options,
      name: "holdfast-sqlite",
      // Messages come and go: a larger young generation would only be memory (30 MB) that is never given back.
      resourceLimits: { maxYoungGenerationSizeMb: 8 },
    });
    started.on("message", ({ answers, hints }: { answers: Answer[]; hints: Hint[] }) => {
      for (const answer of answers) settle(answer);
      if (hints.length > 0) onHints(hints);
    });
    started.on("error", (error) => drop(started, error));
    started.on("exit", () => drop(started, new Error("the store's thread ended")));
    // Only calls under way keep the process alive: a script that has enqueued and is done may simply end.
    started.unref();
    if (watching) started.postMessage({ watch: true });
    thread = started;
    return started;
  }

  /** The thread is gone: what it had under way is answered, and the next call starts another. */
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

  function settle([n, value, error]: Answer): void {
    const waiting = pending.get(n);
    if (waiting === undefined) return;
    pending.delete(n);
    if (pending.size === 0) thread?.unref();
    if (error !== undefined) waiting.reject(unpackError(error, options.file));
    else if (waiting.isDoubtful) void resolveIfInPlace(waiting, value);
    else waiting.resolve(value);
  }

  async function resolveIfInPlace(waiting: Pending, value: unknown): Promise<void> {
    try {
      // A thread that has ended was closed: nobody is left to find out.
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
      pending.set(n, { resolve, reject, isDoubtful: false });
      outbox.push({ n, op, args, now });
      if (outbox.length === 1) queueMicrotask(send);
    });
  }

  function send(): void {
    const calls = outbox;
    outbox = [];
    const target = ensureThread();
    target.ref();
    target.postMessage({ calls });
    const { known = null } = options;
    const reliedOn = calls.filter(({ op }) => isReliedOn(op));
    // Here, while the thread works: there it would cost every write twenty microseconds. Calls made
    // after the file was moved are refused. A call in progress at that moment may succeed: its job is in the file that was moved.
    if (known === null || reliedOn.length === 0 || isInPlace(known)) return;
    for (const { n } of reliedOn) {
      const waiting = pending.get(n);
      if (waiting !== undefined) waiting.isDoubtful = true;
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

/** The same operations on the caller's thread, for `:memory:`: nothing there waits for a disk or another process. */
export function inlineLink(options: ConnectionOptions, onHints: (hints: Hint[]) => void): Link {
  const executor = createExecutor(options);
  let lastNumber = 0;
  return {
    async call(op, args, now) {
      const { answers, hints } = executor.execute([{ n: ++lastNumber, op, args, now }]);
      const [answer] = answers;
      if (hints.length > 0) queueMicrotask(() => onHints(hints));
      if (answer === undefined) throw new HoldfastError("STORE_ERROR", `no answer to ${op}`);
      if (answer[2] !== undefined) throw unpackError(answer[2], options.file);
      return answer[1];
    },
    watch() {},
  };
}
