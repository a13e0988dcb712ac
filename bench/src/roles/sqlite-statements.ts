import { syncBuiltinESMExports } from "node:module";
import threads, { setEnvironmentData, type WorkerOptions } from "node:worker_threads";

const PRELOAD = new URL("./sqlite-thread.js", import.meta.url);

/** Counts the statements of stores that this process opens from now on: each has a thread with its connection. */
export function countThreadStatements(): () => number {
  const counter = new Int32Array(new SharedArrayBuffer(4));
  setEnvironmentData("statements", counter);
  class Counting extends threads.Worker {
    constructor(file: string | URL, options: WorkerOptions = {}) {
      super(file, { ...options, execArgv: [...(options.execArgv ?? []), "--import", PRELOAD.href] });
    }
  }
  threads.Worker = Counting;
  syncBuiltinESMExports();
  return () => Atomics.load(counter, 0);
}
