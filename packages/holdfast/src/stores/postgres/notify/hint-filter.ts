import type { Hint } from "../../../store.js";

/** `wakes`: a transaction has left notes of waits that have ended. */
type Kind = Hint["kind"] | typeof WAKES;
export const WAKES = "wakes";
const KINDS: ReadonlySet<string> = new Set<Kind>(["work", "cancel", "finished", "schedules", WAKES]);
// Hints of one kind are forwarded at most this often: as often as a process sends them.
const PAUSE_MS = 10;
// Ids that wait to be forwarded. The others are noticed when leases are next extended.
const MAX_IDS = 1_000;
const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Turns notifications into hints. Every login of the database may send notifications, with any content and as many as
 * it likes: so those of one kind that arrive close together become one hint, and invalid ones are dropped.
 */
export class HintFilter {
  readonly #self: string;
  readonly #onHints: (hints: Hint[]) => void;
  readonly #onWakes: () => void;
  readonly #paused = new Map<Kind, NodeJS.Timeout>();
  readonly #pending = new Set<Kind>();
  readonly #ids = new Set<string>();

  /** `self`: the sender of this process, whose notifications are ignored. */
  constructor(self: string, onHints: (hints: Hint[]) => void, onWakes: () => void = () => {}) {
    this.#self = self;
    this.#onHints = onHints;
    this.#onWakes = onWakes;
  }

  /** `<sender> <kind>[ <id>,<id>…]` */
  receive(payload: string): void {
    const [from, kind = "", ids = ""] = payload.split(" ", 3);
    if (from === this.#self || !KINDS.has(kind)) return;
    if (kind === "cancel" && !this.#addIds(ids)) return;
    if (this.#paused.has(kind as Kind)) this.#pending.add(kind as Kind);
    else this.#forward(kind as Kind);
  }

  stop(): void {
    for (const timer of this.#paused.values()) clearTimeout(timer);
    this.#paused.clear();
    this.#pending.clear();
    this.#ids.clear();
  }

  /** False: there are no valid ids. */
  #addIds(list: string): boolean {
    for (const id of list.split(",", MAX_IDS - this.#ids.size)) if (ID.test(id)) this.#ids.add(id);
    return this.#ids.size > 0;
  }

  #forward(kind: Kind): void {
    const resume = (): void => {
      this.#paused.delete(kind);
      if (this.#pending.delete(kind)) this.#forward(kind);
    };
    this.#paused.set(kind, setTimeout(resume, PAUSE_MS).unref());
    if (kind === WAKES) this.#onWakes();
    else this.#onHints([this.#hintOf(kind)]);
  }

  #hintOf(kind: Hint["kind"]): Hint {
    if (kind === "work") return { kind, inMs: 0 };
    if (kind !== "cancel") return { kind };
    const ids = [...this.#ids];
    this.#ids.clear();
    return { kind, ids };
  }
}
