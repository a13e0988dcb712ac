import type { Hint } from "../../../store.js";

type Kind = Hint["kind"];
const KINDS: ReadonlySet<string> = new Set<Kind>(["work", "cancel", "finished", "schedules"]);
// A kind of hint that was handed on is not handed on again for so long. As long as a sender waits between two of them.
const REST_MS = 10;
// Ids that wait to be handed on. What is dropped beyond is found out when leases are next extended.
const MOST_IDS = 1_000;
const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Hands on what notifications say. Any login of the database may send them, as many as it likes and saying what it likes: so
 * all of a kind that come close together are one hint, and what is none is dropped.
 */
export class Heard {
  readonly #self: string;
  readonly #onHints: (hints: Hint[]) => void;
  readonly #resting = new Map<Kind, NodeJS.Timeout>();
  readonly #again = new Set<Kind>();
  readonly #ids = new Set<string>();

  /** `self`: who we are. What we sent ourselves is no news. */
  constructor(self: string, onHints: (hints: Hint[]) => void) {
    this.#self = self;
    this.#onHints = onHints;
  }

  /** `<sender> <kind>[ <id>,<id>…]` */
  hear(payload: string): void {
    const [from, kind = "", rest = ""] = payload.split(" ", 3);
    if (from === this.#self || !KINDS.has(kind)) return;
    if (kind === "cancel" && !this.#keepIds(rest)) return;
    if (this.#resting.has(kind as Kind)) this.#again.add(kind as Kind);
    else this.#handOn(kind as Kind);
  }

  stop(): void {
    for (const timer of this.#resting.values()) clearTimeout(timer);
    this.#resting.clear();
    this.#again.clear();
    this.#ids.clear();
  }

  /** False: there is none among them. */
  #keepIds(list: string): boolean {
    for (const id of list.split(",", MOST_IDS - this.#ids.size)) if (ID.test(id)) this.#ids.add(id);
    return this.#ids.size > 0;
  }

  #handOn(kind: Kind): void {
    const rest = (): void => {
      this.#resting.delete(kind);
      if (this.#again.delete(kind)) this.#handOn(kind);
    };
    this.#resting.set(kind, setTimeout(rest, REST_MS).unref());
    this.#onHints([this.#hintOf(kind)]);
  }

  #hintOf(kind: Kind): Hint {
    if (kind === "work") return { kind, inMs: 0 };
    if (kind !== "cancel") return { kind };
    const ids = [...this.#ids];
    this.#ids.clear();
    return { kind, ids };
  }
}
