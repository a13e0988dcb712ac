import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import type { ConnectionOptions } from "./connection.js";
import { createExecutor, type Call } from "./executor.js";

/**
 * The store's own thread: a blocked writer or a slow disk holds up this thread and not the application's event loop.
 */
export type ToThread = { calls: Call[] } | { watch: boolean };

const port = parentPort;
if (port === null) throw new Error("this file is started as a worker thread");

const executor = createExecutor(workerData as ConnectionOptions);

// How often other processes' writes are looked for: soon after activity, and at rest. A look costs two microseconds.
const ACTIVE_LOOK_MS = 10;
const RESTING_LOOK_MS = 40;
const ACTIVE_FOR_MS = 1_000;

let watching = false;
let lastActive = 0;
let timer: NodeJS.Timeout | undefined;

function watch(): void {
  clearTimeout(timer);
  if (!watching) return;
  const active = Date.now() - lastActive < ACTIVE_FOR_MS;
  timer = setTimeout(look, active ? ACTIVE_LOOK_MS : RESTING_LOOK_MS);
}

function look(): void {
  try {
    const hints = executor.look();
    if (hints.length > 0) {
      lastActive = Date.now();
      port?.postMessage({ answers: [], hints });
    }
  } catch {
    // Only a hint was lost; whoever polls finds out what is wrong.
  }
  watch();
}

port.on("message", (first: ToThread) => {
  const calls: Call[] = [];
  // Everything that arrived while the last transaction was written goes into the next one.
  for (let message: ToThread | undefined = first; message !== undefined; message = next()) {
    if ("watch" in message) {
      watching = message.watch;
      watch();
    } else calls.push(...message.calls);
  }
  if (calls.length === 0) return;
  lastActive = Date.now();
  port.postMessage(executor.execute(calls));
  if (calls.some((call) => call.op === "close")) {
    clearTimeout(timer);
    port.close();
  }
});

function next(): ToThread | undefined {
  return port === null ? undefined : (receiveMessageOnPort(port)?.message as ToThread | undefined);
}
