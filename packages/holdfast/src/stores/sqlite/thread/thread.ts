import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import type { ConnectionOptions } from "./connection.js";
import { createExecutor, type Call } from "./executor.js";
import { WalWatcher } from "./wal-watcher.js";

/**
 * The store's own thread. better-sqlite3 is synchronous: a slow disk, or a lock held by another process, blocks this thread
 * and not the application's event loop.
 */
export type ToThread = { calls: Call[] } | { watch: boolean };

const port = parentPort;
if (port === null) throw new Error("this file must be started as a worker thread");

const options = workerData as ConnectionOptions;
const executor = createExecutor(options);
const walWatcher = new WalWatcher(options.file, sendChanges);

/** Sends the hints of other processes' writes. Returns whether there were any. */
function sendChanges(): boolean {
  try {
    const hints = executor.changesByOthers();
    if (hints.length > 0) port?.postMessage({ results: [], hints });
    return hints.length > 0;
  } catch {
    // Only a hint is lost. The next poll fails with the same error and reports it.
    return false;
  }
}

// After the last write, so that a deleted log is noticed without waiting for the next one.
const FILE_CHECK_MS = 100;
let fileCheck: NodeJS.Timeout | null = null;

function scheduleFileCheck(): void {
  fileCheck ??= setTimeout(() => {
    fileCheck = null;
    executor.checkFiles();
  }, FILE_CHECK_MS);
}

port.on("message", (first: ToThread) => {
  const calls: Call[] = [];
  // Group commit: all writes that arrived during the last transaction go into the next one (see Executor.execute).
  for (let message: ToThread | undefined = first; message !== undefined; message = nextMessage()) {
    if ("watch" in message) walWatcher.watch(message.watch);
    else calls.push(...message.calls);
  }
  if (calls.length === 0) return;
  const done = executor.execute(calls);
  walWatcher.recordOwnUse(done.hints.length > 0);
  port.postMessage(done);
  scheduleFileCheck();
  if (calls.some((call) => call.op === "close")) {
    if (fileCheck !== null) clearTimeout(fileCheck);
    walWatcher.watch(false);
    port.close();
  }
});

function nextMessage(): ToThread | undefined {
  return port === null ? undefined : (receiveMessageOnPort(port)?.message as ToThread | undefined);
}
