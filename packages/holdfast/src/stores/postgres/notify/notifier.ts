import type { Hint } from "../../../store.js";
import type { Db, Runner, Statement } from "../connection/db.js";
import { qualify } from "../connection/qualify.js";

// NOTIFY takes a lock over the whole database at commit. So one notification stands for all of its kind until the next.
const WORK_MS = 10;
const OTHER_MS = 50;
// How long a worker of our own has to take what was enqueued here before others hear of it.
const OFFER_MS = 5;

export const NOTIFY: Statement = {
  name: "holdfast_notify",
  text: qualify("SELECT pg_catalog.pg_notify($1, $2)::text AS done"),
};

/** Tells other processes what may interest them, now and then and never twice the same. */
export class Notifier {
  readonly #db: Db;
  readonly #channel: string;
  readonly #self: string;
  readonly #waiting = new Map<string, NodeJS.Timeout>();
  readonly #again = new Map<string, Hint>();
  readonly #sending = new Set<Promise<unknown>>();
  #offer: NodeJS.Timeout | null = null;
  #offeredAt = 0;

  constructor(db: Db, channel: string, self: string) {
    this.#db = db;
    this.#channel = channel;
    this.#self = self;
  }

  /**
   * Work that a worker of this process is about to look for: others hear of it only if that one does not look, or leaves
   * some of it.
   */
  offer(): void {
    this.#offeredAt = performance.now();
    this.#offer ??= setTimeout(() => this.#sendOffer(), OFFER_MS).unref();
  }

  /** A claim of this process. `takesAll` says of its answer whether it took everything that was due. */
  async whileClaiming<Answer>(claim: () => Promise<Answer>, takesAll: (answer: Answer) => boolean): Promise<Answer> {
    const begun = performance.now();
    const isLooking = this.#offer !== null && begun > this.#offeredAt;
    if (isLooking) clearTimeout(this.#offer ?? undefined);
    let all = false;
    try {
      const answer = await claim();
      all = takesAll(answer);
      return answer;
    } finally {
      if (isLooking && all && begun > this.#offeredAt) this.#offer = null;
      else if (isLooking) this.#sendOffer();
    }
  }

  #sendOffer(): void {
    if (this.#offer === null) return;
    clearTimeout(this.#offer);
    this.#offer = null;
    this.send({ kind: "work", inMs: 0 });
  }

  send(hint: Hint): void {
    // What is due later is found by whoever looks for it; a notification now would only wake them for nothing.
    if (hint.kind === "work" && hint.inMs > 0) return;
    if (hint.kind === "cancel") {
      this.#say(hint);
      return;
    }
    if (this.#waiting.has(hint.kind)) {
      this.#again.set(hint.kind, hint);
      return;
    }
    this.#say(hint);
    this.#rest(hint);
  }

  #rest(hint: Hint): void {
    const timer = setTimeout(
      () => {
        this.#waiting.delete(hint.kind);
        if (this.#again.delete(hint.kind)) this.send(hint);
      },
      hint.kind === "work" ? WORK_MS : OTHER_MS,
    );
    timer.unref();
    this.#waiting.set(hint.kind, timer);
  }

  /**
   * Inside a transaction of the caller's, so that it is heard when that commits and not before. By this process too,
   * which does not know when that is: so it is not signed.
   */
  async sendIn(runner: Runner, hint: Hint): Promise<void> {
    await runner.run(NOTIFY, this.#values(hint, "-"));
  }

  #values(hint: Hint, from: string): string[] {
    const rest = hint.kind === "cancel" ? ` ${hint.ids.slice(0, 100).join(",")}` : "";
    return [this.#channel, `${from} ${hint.kind}${rest}`];
  }

  #say(hint: Hint): void {
    // Only a hint is lost if it fails; polling finds out. A claim of our own that the same hint leads to goes first.
    const sent = new Promise((resolve) => setImmediate(resolve))
      .then(() => this.#db.run(NOTIFY, this.#values(hint, this.#self)))
      .catch(() => {});
    this.#sending.add(sent);
    void sent.finally(() => this.#sending.delete(sent));
  }

  async stop(): Promise<void> {
    this.#sendOffer();
    for (const timer of this.#waiting.values()) clearTimeout(timer);
    this.#waiting.clear();
    // What gathered meanwhile is said now: nobody is left to say it later.
    for (const hint of this.#again.values()) this.#say(hint);
    this.#again.clear();
    await Promise.all(this.#sending);
  }
}
