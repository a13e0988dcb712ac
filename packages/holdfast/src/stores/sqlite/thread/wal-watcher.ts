import { realpathSync, watch, type FSWatcher } from "node:fs";

/** How long to wait before the next check. */
interface CheckIntervals {
  /** When nothing has changed for a while. A check costs 2 microseconds. */
  idleMs: number;
  /** For a second after a change. */
  activeMs: number;
  /** After a file event: another process is writing, and its commit becomes visible once it is synced. */
  afterEventMs: number;
  /** A file event this soon after this process has used the file was caused by that use. */
  ownWriteMs: number;
}
const INTERVALS: CheckIntervals = { idleMs: 40, activeMs: 10, afterEventMs: 1, ownWriteMs: 2 };
const ACTIVE_FOR_MS = 1_000;
const CHECKS_AFTER_EVENT = 12;

/**
 * Notices writes of other processes. SQLite sends no notification for them: a connection has to poll `data_version`. Polling
 * alone, every 10 ms when active and every 40 ms when idle, takes 7.6 ms from an enqueue to the handler in another process.
 * A file event of the write-ahead log starts polling every millisecond until the commit is visible: 3.5 ms (medians, see
 * docs/decisions/0002). Polling stays, because some systems and all network file systems send no events.
 *
 * Between an event and the end of the checks that follow it, there is no watcher: a transaction of another process is hundreds of
 * writes, and to receive them all took 8 % of a core in a process that followed a busy worker.
 */
export class WalWatcher {
  readonly #file: string;
  readonly #check: () => boolean;
  readonly #intervals: CheckIntervals;
  #isOn = false;
  #timer: NodeJS.Timeout | undefined;
  #watcher: FSWatcher | null = null;
  #canWatch = true;
  #lastChangeAt = Number.NEGATIVE_INFINITY;
  #lastOwnUseAt = Number.NEGATIVE_INFINITY;
  #checksAfterEvent = 0;

  /** `check` returns whether another process has written. */
  constructor(file: string, check: () => boolean, intervals: CheckIntervals = INTERVALS) {
    this.#file = file;
    this.#check = check;
    this.#intervals = intervals;
  }

  /** Whether it receives file events. */
  get receivesEvents(): boolean {
    return this.#watcher !== null;
  }

  watch(on: boolean): void {
    this.#isOn = on;
    if (on) this.#openWatcher();
    else this.#closeWatcher();
    this.#schedule();
  }

  /** This process has used the database. `changed`: it wrote something that listeners may wait for. */
  recordOwnUse(changed: boolean): void {
    this.#lastOwnUseAt = performance.now();
    if (changed) this.#lastChangeAt = this.#lastOwnUseAt;
  }

  #schedule(): void {
    clearTimeout(this.#timer);
    if (!this.#isOn) return;
    const { idleMs, activeMs, afterEventMs } = this.#intervals;
    const isActive = performance.now() - this.#lastChangeAt < ACTIVE_FOR_MS;
    const delayMs = this.#checksAfterEvent > 0 ? afterEventMs : isActive ? activeMs : idleMs;
    this.#timer = setTimeout(() => this.#onTimer(), delayMs);
  }

  #onTimer(): void {
    if (this.#checksAfterEvent > 0) this.#checksAfterEvent--;
    if (this.#check()) {
      this.#checksAfterEvent = 0;
      this.#lastChangeAt = performance.now();
    }
    // A write before this is noticed by the next check.
    if (this.#checksAfterEvent === 0) this.#openWatcher();
    this.#schedule();
  }

  /** The log may not exist before the first read of the database. It then exists while a connection is open. */
  #openWatcher(): void {
    if (!this.#canWatch || this.receivesEvents) return;
    try {
      // The log is next to the file itself, not next to a symbolic link to it.
      const file = realpathSync.native(this.#file);
      // The watcher follows the file, not its name: after a rename or deletion the name needs a new watcher.
      this.#watcher = watch(`${file}-wal`, { persistent: false }, (event) =>
        event === "rename" ? this.#closeWatcher() : this.#onEvent(),
      );
      this.#watcher.on("error", () => this.#stopWatching());
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") this.#stopWatching();
    }
  }

  #stopWatching(): void {
    this.#canWatch = false;
    this.#closeWatcher();
  }

  #closeWatcher(): void {
    this.#watcher?.close();
    this.#watcher = null;
  }

  #onEvent(): void {
    const now = performance.now();
    if (now - this.#lastOwnUseAt < this.#intervals.ownWriteMs) return;
    this.#closeWatcher();
    this.#checksAfterEvent = CHECKS_AFTER_EVENT;
    this.#lastChangeAt = now;
    this.#schedule();
  }
}
