import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { watch } from "node:fs";
import { dirname } from "node:path";
import type { Output } from "./output.js";

const WATCHED = /\.(?:[cm]?[jt]s|json|toml)$/;
const IGNORED = /(?:^|[\\/])(?:node_modules|\.git|dist|coverage)(?:[\\/]|$)/;
const STOP_MS = 35_000;

export interface Watching {
  /** The module that runs. */
  path: string;
  output: Output;
  signal: AbortSignal;
  /** Changes that come so close together are one. */
  settleMs: number;
}

/** Runs this same command in a process of its own, and again whenever a file beside the module changes. */
export async function watchAndRun({ path, output, signal, settleMs }: Watching): Promise<number> {
  let child: ChildProcess | null = null;
  let wanted: () => void = () => {};
  let timer: NodeJS.Timeout | null = null;
  const watcher = watch(dirname(path), { recursive: true }, (_event, file) => {
    if (file === null || !WATCHED.test(file) || IGNORED.test(file)) return;
    if (timer !== null) clearTimeout(timer);
    timer = setTimeout(() => wanted(), settleMs);
  });
  // A folder that goes away is told by the next start, if at all.
  watcher.on("error", () => {});
  const stopped = new Promise<"stop">((resolve) =>
    signal.addEventListener("abort", () => resolve("stop"), { once: true }),
  );
  try {
    while (!signal.aborted) {
      const changed = new Promise<"change">((resolve) => (wanted = () => resolve("change")));
      child = start();
      const ended = once(child, "exit").then(() => "end" as const);
      const first = await Promise.race([stopped, changed, ended]);
      if (first === "end") {
        output.note("It ended; waiting for a change.");
        if ((await Promise.race([stopped, changed])) === "stop") break;
      } else await stop(child, ended);
      if (first === "stop") break;
      output.note("A file changed; starting again.");
    }
  } finally {
    watcher.close();
    if (timer !== null) clearTimeout(timer);
  }
  return 0;
}

function start(): ChildProcess {
  const [, ...words] = process.argv;
  return spawn(process.execPath, [...process.execArgv, ...words], {
    stdio: "inherit",
    env: { ...process.env, HOLDFAST_DEV_CHILD: "1" },
  });
}

/** It drains, and is ended if that takes too long. */
async function stop(child: ChildProcess, ended: Promise<unknown>): Promise<void> {
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
  await ended;
  clearTimeout(timer);
}
