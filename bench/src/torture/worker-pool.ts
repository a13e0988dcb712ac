import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { WorkerOrder } from "./worker.js";

type FromWorker = { kind: "working" } | { kind: "pausing"; forMs: number };

/** Worker processes, each replaced when it ends, and woken up when it has stopped itself. */
export interface WorkerPool {
  /** Resolves when no process is stopped. */
  noneStopped(): Promise<void>;
  /** The processes that run. */
  pids(): ReadonlySet<number>;
  stop(): Promise<void>;
}

// A process that ends this early, or by anything but a kill, has failed.
const MAX_FAILURES = 5;

export function startWorkers(count: number, order: WorkerOrder, onFailure: (reason: string) => void): WorkerPool {
  const running = new Set<ChildProcess>();
  const stopped = new Set<Promise<void>>();
  let failures = 0;
  let isStopping = false;
  const killAll = (): void => {
    for (const child of running) child.kill("SIGKILL");
  };
  process.once("exit", killAll);

  function start(): void {
    const child = fork(fileURLToPath(new URL("./worker.js", import.meta.url)), {
      stdio: ["ignore", "ignore", "inherit", "ipc"],
      execArgv: [],
      // Each of many processes would print the warnings of the AWS SDK.
      env: { ...process.env, NODE_NO_WARNINGS: "1" },
    });
    running.add(child);
    child.on("message", (message: FromWorker) => {
      if (message.kind !== "pausing") return;
      const woken = wakeLater(child, message.forMs).finally(() => stopped.delete(woken));
      stopped.add(woken);
    });
    child.once("error", () => {});
    child.once("exit", (code, signal) => {
      running.delete(child);
      if (isStopping) return;
      if (signal !== "SIGKILL" && ++failures >= MAX_FAILURES)
        onFailure(`workers end by themselves (${signal ?? code})`);
      else start();
    });
    child.send(order, () => {});
  }
  for (let each = 0; each < count; each++) start();

  return {
    async noneStopped() {
      while (stopped.size > 0) await Promise.all(stopped);
    },
    pids: () => new Set([...running].flatMap(({ pid }) => (pid === undefined ? [] : [pid]))),
    async stop() {
      isStopping = true;
      const ended = [...running].map((child) => new Promise<void>((resolve) => child.once("exit", () => resolve())));
      killAll();
      await Promise.all(ended);
      process.off("exit", killAll);
    },
  };
}

/** `kill` of a process that has ended meanwhile does nothing. */
async function wakeLater(child: ChildProcess, afterMs: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, afterMs));
  child.kill("SIGCONT");
}
