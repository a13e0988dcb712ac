import { realpathSync, watch, type FSWatcher } from "node:fs";

/** How long to wait before a look. */
interface Paces {
  /** When nothing has happened for a while. A look costs two microseconds. */
  restingMs: number;
  /** For a second after something has. */
  activeMs: number;
  /** Once the system says that somebody writes: what is written can be seen when it has been synced. */
  keenMs: number;
  /** What the system says so soon after this process has used the file is about that. */
  ownMs: number;
}
const PACES: Paces = { restingMs: 40, activeMs: 10, keenMs: 1, ownMs: 2 };
const ACTIVE_FOR_MS = 1_000;
const KEEN_LOOKS = 12;

/**
 * Looks for what other processes wrote: from time to time, and at once where the system tells of changes to the file of the
 * write-ahead log. Not all do, and over a network none does, so the times are short enough to do without.
 */
export class Lookout {
  readonly #file: string;
  readonly #look: () => boolean;
  readonly #paces: Paces;
  #on = false;
  #timer: NodeJS.Timeout | undefined;
  #watcher: FSWatcher | null = null;
  #canTell = true;
  #lastActive = Number.NEGATIVE_INFINITY;
  #lastOwn = Number.NEGATIVE_INFINITY;
  #keen = 0;

  /** `look` answers whether somebody has written. */
  constructor(file: string, look: () => boolean, paces: Paces = PACES) {
    this.#file = file;
    this.#look = look;
    this.#paces = paces;
  }

  /** Whether the system tells it of the file. */
  get hears(): boolean {
    return this.#watcher !== null;
  }

  watch(on: boolean): void {
    this.#on = on;
    if (on) this.#watch();
    else this.#unwatch();
    this.#plan();
  }

  /** This process has used the database, and `changed` what others may wait for. */
  used(changed: boolean): void {
    this.#lastOwn = performance.now();
    if (changed) this.#lastActive = this.#lastOwn;
  }

  #plan(): void {
    clearTimeout(this.#timer);
    if (!this.#on) return;
    const { restingMs, activeMs, keenMs } = this.#paces;
    const isActive = performance.now() - this.#lastActive < ACTIVE_FOR_MS;
    this.#timer = setTimeout(() => this.#due(), this.#keen > 0 ? keenMs : isActive ? activeMs : restingMs);
  }

  #due(): void {
    if (!this.hears) this.#watch();
    if (this.#keen > 0) this.#keen--;
    if (this.#look()) {
      this.#keen = 0;
      this.#lastActive = performance.now();
    }
    this.#plan();
  }

  /** The file may not be there before the first look at the database; then it stays while a connection is open. */
  #watch(): void {
    if (!this.#canTell || this.hears) return;
    try {
      // The log stands beside the file itself, not beside a symbolic link to it.
      const file = realpathSync.native(this.#file);
      // What is renamed or deleted is another file from then on.
      this.#watcher = watch(`${file}-wal`, { persistent: false }, (event) =>
        event === "rename" ? this.#unwatch() : this.#hear(),
      );
      this.#watcher.on("error", () => this.#giveUp());
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") this.#giveUp();
    }
  }

  #giveUp(): void {
    this.#canTell = false;
    this.#unwatch();
  }

  #unwatch(): void {
    this.#watcher?.close();
    this.#watcher = null;
  }

  #hear(): void {
    const now = performance.now();
    if (now - this.#lastOwn < this.#paces.ownMs) return;
    this.#keen = KEEN_LOOKS;
    this.#lastActive = now;
    this.#plan();
  }
}
