import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import type { ConnectionOptions } from "./connection.js";
import { createExecutor, type Call } from "./executor.js";
import { Lookout } from "./wal-watcher.js";

/**
 * The store's own thread: a blocked writer or a slow disk holds up this thread and not the application's event loop.
 */
export type ToThread = { calls: Call[] } | { watch: boolean };

const port = parentPort;
if (port === null) throw new Error("this file is started as a worker thread");

const options = workerData as ConnectionOptions;
const executor = createExecutor(options);
const lookout = new Lookout(options.file, look);

function look(): boolean {
  try {
    const hints = executor.look();
    if (hints.length > 0) port?.postMessage({ answers: [], hints });
    return hints.length > 0;
  } catch {
    // Only a hint was lost; whoever polls finds out what is wrong.
    return false;
  }
}

// A log that is deleted after the last write must not wait for the next one to be noticed.
const FILES_MS = 100;
let filesTimer: NodeJS.Timeout | null = null;

function watchFilesSoon(): void {
  filesTimer ??= setTimeout(() => {
    filesTimer = null;
    executor.watchFiles();
  }, FILES_MS);
}

port.on("message", (first: ToThread) => {
  const calls: Call[] = [];
  // Everything that arrived while the last transaction was written goes into the next one.
  for (let message: ToThread | undefined = first; message !== undefined; message = next()) {
    if ("watch" in message) lookout.watch(message.watch);
    else calls.push(...message.calls);
  }
  if (calls.length === 0) return;
  const done = executor.execute(calls);
  lookout.used(done.hints.length > 0);
  port.postMessage(done);
  watchFilesSoon();
  if (calls.some((call) => call.op === "close")) {
    if (filesTimer !== null) clearTimeout(filesTimer);
    lookout.watch(false);
    port.close();
  }
});

function next(): ToThread | undefined {
  return port === null ? undefined : (receiveMessageOnPort(port)?.message as ToThread | undefined);
}
