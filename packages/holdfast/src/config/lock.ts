import { randomUUID } from "node:crypto";
import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { HoldfastError } from "../errors.js";

/** Somebody else is changing the file, and has not come to an end. */
export class ConfigLockedError extends HoldfastError {
  constructor(lock: string) {
    super(
      "CONFIG_LOCKED",
      `another process is changing the configuration; try again, or if there is none, delete ${lock}`,
    );
  }
}

// A change takes some milliseconds: whoever has held a lock for so long was killed.
const ABANDONED_MS = 10_000;
const WAIT_MS = 5_000;
const SHORTEST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 50;

/** The file whose being there says that a file is being changed. */
export function lockOf(file: string): string {
  return `${file}.lock`;
}

/**
 * Does the work while nobody else does it with the same lock. It gets a function to call before what cannot be undone, which
 * throws if the lock is lost: a process that stood still for long is taken for dead.
 *
 * The work must not wait for anything. So a signal cannot end the process with the lock left behind; only a kill can.
 */
export async function withLock<Answer>(
  lock: string,
  work: (refuseIfLost: () => void) => Answer,
  { waitMs = WAIT_MS }: { waitMs?: number } = {},
): Promise<Answer> {
  const mark = randomUUID();
  const start = performance.now();
  while (!isMade(lock, mark)) {
    if (performance.now() - start >= waitMs) throw new ConfigLockedError(lock);
    removeAbandoned(lock);
    // By chance, so that those who wait do not come all at once again.
    await pause(SHORTEST_PAUSE_MS + Math.random() * (LONGEST_PAUSE_MS - SHORTEST_PAUSE_MS));
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

function isMade(path: string, mark: string): boolean {
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
 * One at a time, and looking again when it is their turn: of two who find the same old lock, the second would remove the new one
 * of the first.
 */
function removeAbandoned(lock: string): void {
  if (!isAbandoned(lock)) return;
  const turn = `${lock}.old`;
  if (!isMade(turn, "")) {
    if (isAbandoned(turn)) rmSync(turn, { force: true });
    return;
  }
  try {
    if (isAbandoned(lock)) rmSync(lock, { force: true });
  } finally {
    rmSync(turn, { force: true });
  }
}

function isAbandoned(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  return found !== undefined && Date.now() - found.mtimeMs > ABANDONED_MS;
}
