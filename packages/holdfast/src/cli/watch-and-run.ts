import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdirSync, statSync, type Dirent } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Output } from "./ui/output.js";
import { TEARDOWN_MS } from "./run-jobs.js";

const WATCHED = /\.[cm]?[jt]s$/;
const IGNORED: ReadonlySet<string> = new Set(["node_modules", "dist", "coverage", "build"]);
// Polled instead of watched: file events differ between systems, and some saves emit none.
const POLL_MS = 500;
const MAX_FILES = 5_000;

/** Sent by the child before it exits with an error that no change of a file would fix. */
export const FATAL = "fatal";

export interface Watching {
  /** The jobs module. */
  path: string;
  /** The command line to run again, and where. */
  argv: readonly string[];
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  /** The configuration file; also watched. */
  file: string | null;
  output: Output;
  signal: AbortSignal;
  /** How long the child may take to shut down. */
  graceMs: number;
}

/** Runs the same command in a child process, and restarts it when a file in the folder of the module changes. */
export async function watchAndRun(watching: Watching): Promise<number> {
  const { path, file, output, signal, graceMs } = watching;
  while (!signal.aborted) {
    const done = new AbortController();
    const either = AbortSignal.any([signal, done.signal]);
    const changed = fileChange(dirname(path), file, either);
    const child = start(watching);
    const ended = once(child, "exit");
    const fatal = new Promise<true>((resolve) => {
      child.on("message", (message) => void (message === FATAL && resolve(true)));
    });
    // A message sent before the exit may arrive after it, but not once the channel is closed.
    const silent = once(child, "disconnect").then(() => false as const);
    if (await Promise.race([changed.then(() => false), ended.then(() => true)])) {
      if (await Promise.race([fatal, silent])) {
        done.abort();
        return 1;
      }
      output.note("The process ended; waiting for a file to change.");
      await changed;
    } else await stop(child, ended, graceMs);
    done.abort();
    if (!signal.aborted) output.note("A file changed; restarting.");
  }
  return 0;
}

/** Resolves when a file has changed, or at the signal. */
async function fileChange(folder: string, file: string | null, signal: AbortSignal): Promise<void> {
  const before = snapshotOf(folder, file);
  while (!signal.aborted) {
    await sleep(POLL_MS, null, { signal }).catch(() => {});
    if (snapshotOf(folder, file) !== before) return;
  }
}

/** Names, sizes and modification times of the watched files, as one string. */
function snapshotOf(folder: string, file: string | null): string {
  const files: string[] = [];
  const folders = [folder];
  for (let at = folders.pop(); at !== undefined && files.length < MAX_FILES; at = folders.pop()) {
    for (const entry of list(at)) {
      const path = join(at, entry.name);
      if (entry.isDirectory() && !IGNORED.has(entry.name) && !entry.name.startsWith(".")) folders.push(path);
      else if (WATCHED.test(entry.name)) files.push(fileState(path));
    }
  }
  return [...files, ...(file === null ? [] : [fileState(file)])].toSorted().join("\n");
}

function list(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    // Deleted meanwhile.
    return [];
  }
}

function fileState(path: string): string {
  const file = statSync(path, { throwIfNoEntry: false });
  return `${path} ${file?.size} ${file?.mtimeMs}`;
}

/** With an IPC channel, so that the child notices when this process dies. */
function start({ argv, env, cwd }: Watching): ChildProcess {
  const [, ...words] = argv;
  return spawn(process.execPath, [...process.execArgv, ...words], {
    stdio: ["inherit", "inherit", "inherit", "ipc"],
    cwd,
    env: { ...env, HOLDFAST_DEV_CHILD: "1" },
  });
}

/** Lets the child drain, and kills it if that takes too long. */
async function stop(child: ChildProcess, ended: Promise<unknown>, graceMs: number): Promise<void> {
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), graceMs + TEARDOWN_MS + 5_000);
  await ended;
  clearTimeout(timer);
}
