import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdirSync, statSync, type Dirent } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Output } from "./ui/output.js";
import { TEARDOWN_MS } from "./run-jobs.js";

const WATCHED = /\.[cm]?[jt]s$/;
const IGNORED: ReadonlySet<string> = new Set(["node_modules", "dist", "coverage", "build"]);
// Looked at again and again instead of watched: what the systems tell of files differs, and not every save is told.
const LOOK_MS = 500;
const MOST_FILES = 5_000;

/** What the process that runs says before it ends, where no change of a file would help it. */
export const UNMENDABLE = "unmendable";

export interface Watching {
  /** The module that runs. */
  path: string;
  /** The configuration file, which is watched too. */
  file: string | null;
  output: Output;
  signal: AbortSignal;
  /** How long a process has to end. */
  graceMs: number;
}

/** Runs this same command in a process of its own, and again whenever a file beside the module changes. */
export async function watchAndRun({ path, file, output, signal, graceMs }: Watching): Promise<number> {
  while (!signal.aborted) {
    const stop = new AbortController();
    const either = AbortSignal.any([signal, stop.signal]);
    const changed = change(dirname(path), file, either);
    const child = start();
    const ended = once(child, "exit");
    const unmendable = new Promise<true>((resolve) => {
      child.on("message", (word) => void (word === UNMENDABLE && resolve(true)));
    });
    // What was said before the end may be heard after it, but not once the channel is closed.
    const silent = once(child, "disconnect").then(() => false as const);
    if (await Promise.race([changed.then(() => false), ended.then(() => true)])) {
      if (await Promise.race([unmendable, silent])) {
        stop.abort();
        return 1;
      }
      output.note("It ended; waiting for a change.");
      await changed;
    } else await end(child, ended, graceMs);
    stop.abort();
    if (!signal.aborted) output.note("A file changed; starting again.");
  }
  return 0;
}

/** Until a file is another than it was, or until the signal. */
async function change(folder: string, file: string | null, signal: AbortSignal): Promise<void> {
  const before = marksOf(folder, file);
  while (!signal.aborted) {
    await sleep(LOOK_MS, null, { signal }).catch(() => {});
    if (marksOf(folder, file) !== before) return;
  }
}

/** What the files are like: their names, sizes and times. */
function marksOf(folder: string, file: string | null): string {
  const marks: string[] = [];
  const folders = [folder];
  for (let at = folders.pop(); at !== undefined && marks.length < MOST_FILES; at = folders.pop()) {
    for (const entry of list(at)) {
      const path = join(at, entry.name);
      if (entry.isDirectory() && !IGNORED.has(entry.name) && !entry.name.startsWith(".")) folders.push(path);
      else if (WATCHED.test(entry.name)) marks.push(markOf(path));
    }
  }
  return [...marks, ...(file === null ? [] : [markOf(file)])].toSorted().join("\n");
}

function list(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    // It has just gone.
    return [];
  }
}

function markOf(path: string): string {
  const file = statSync(path, { throwIfNoEntry: false });
  return `${path} ${file?.size} ${file?.mtimeMs}`;
}

/** With a channel, so that it notices when we are gone. */
function start(): ChildProcess {
  const [, ...words] = process.argv;
  return spawn(process.execPath, [...process.execArgv, ...words], {
    stdio: ["inherit", "inherit", "inherit", "ipc"],
    env: { ...process.env, HOLDFAST_DEV_CHILD: "1" },
  });
}

/** It drains, and is ended if that takes too long. */
async function end(child: ChildProcess, ended: Promise<unknown>, graceMs: number): Promise<void> {
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), graceMs + TEARDOWN_MS + 5_000);
  await ended;
  clearTimeout(timer);
}
