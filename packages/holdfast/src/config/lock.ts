import { randomUUID } from "node:crypto";
import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { HoldfastError } from "../errors.js";

/** Another process is changing the file and did not finish in time. */
export class ConfigLockedError extends HoldfastError {
  constructor(lock: string) {
    super(
      "CONFIG_LOCKED",
      `another process is changing the configuration; try again, or if no other process is running, delete ${lock}`,
    );
  }
}

// A change takes a few milliseconds, so a process that holds the lock longer than this was killed.
const ABANDONED_MS = 10_000;
const WAIT_MS = 5_000;
const MIN_PAUSE_MS = 5;
const MAX_PAUSE_MS = 50;

/** The path of the lock file. It exists while the file is being changed. */
export function lockOf(file: string): string {
  return `${file}.lock`;
}

/**
 * Runs `work` while holding the lock. `work` must call `refuseIfLost` before it does something irreversible: if this process was
 * paused for long, another one has removed the lock as abandoned, and the call throws.
 *
 * `work` is synchronous. So a signal cannot end the process and leave the lock behind; only a kill can.
 */
export async function withLock<Result>(
  lock: string,
  work: (refuseIfLost: () => void) => Result,
  { waitMs = WAIT_MS }: { waitMs?: number } = {},
): Promise<Result> {
  const mark = randomUUID();
  const start = performance.now();
  while (!tryCreate(lock, mark)) {
    if (performance.now() - start >= waitMs) throw new ConfigLockedError(lock);
    removeAbandoned(lock);
    // A random pause, so that waiting processes do not retry simultaneously.
    await pause(MIN_PAUSE_MS + Math.random() * (MAX_PAUSE_MS - MIN_PAUSE_MS));
  }
  const isHeld = (): boolean => isMarked(lock, mark);
  try {
    return work(() => {
      if (!isHeld()) throw new ConfigLockedError(lock);
    });
  } finally {
    if (isHeld()) rmSync(lock, { force: true });
  }
}

function tryCreate(path: string, mark: string): boolean {
  try {
    writeFileSync(path, mark, { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

function isMarked(path: string, mark: string): boolean {
  try {
    return readFileSync(path, "utf8") === mark;
  } catch {
    return false;
  }
}

/**
 * Removes an abandoned lock. A second lock file lets only one process do this, and that process checks again: of two that find the
 * same old lock, the second could otherwise remove the new lock of the first.
 */
function removeAbandoned(lock: string): void {
  if (!isAbandoned(lock)) return;
  const removal = `${lock}.old`;
  if (!tryCreate(removal, "")) {
    if (isAbandoned(removal)) rmSync(removal, { force: true });
    return;
  }
  try {
    if (isAbandoned(lock)) rmSync(lock, { force: true });
  } finally {
    rmSync(removal, { force: true });
  }
}

function isAbandoned(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  return found !== undefined && Date.now() - found.mtimeMs > ABANDONED_MS;
}
