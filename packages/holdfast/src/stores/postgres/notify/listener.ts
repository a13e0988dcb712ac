import type { Clock, Timer } from "../../../clock.js";
import type { Hint } from "../../../store.js";
import { Heard } from "./hint-filter.js";

/** A connection that hears notifications, as far as it is used here. */
export interface PgListener {
  query(config: { text: string }): Promise<unknown>;
  on(event: "notification", listener: (message: { payload?: string | undefined }) => void): unknown;
  on(event: "error" | "end", listener: (error?: Error) => void): unknown;
  end(): Promise<void> | void;
}

export interface ListenerSettings {
  connect(): Promise<PgListener>;
  /** Says something on the channel, by another connection. */
  say(payload: string): Promise<unknown>;
  channel: string;
  /** Who we are: what we said ourselves is no news. */
  self: string;
  clock: Clock;
  onHints(hints: Hint[]): void;
  /** A connection answers and yet hears nothing. Told once. */
  onDeaf(): void;
}

const CHECK_MS = 30_000;
const ANSWER_MS = 5_000;
const RECONNECT_MS = 1_000;

/** Keeps one connection listening, and replaces it when it is gone. Only hints are at stake: polling is the truth. */
export class Listener {
  readonly #settings: ListenerSettings;
  #listening: Listening | null = null;

  constructor(settings: ListenerSettings) {
    this.#settings = settings;
  }

  start(): void {
    this.#listening ??= new Listening(this.#settings);
  }

  async stop(): Promise<void> {
    const listening = this.#listening;
    this.#listening = null;
    await listening?.stop();
  }
}

/** From one start to its stop. */
class Listening {
  readonly #settings: ListenerSettings;
  readonly #echo: string;
  readonly #heard: Heard;
  #active = true;
  #connection: PgListener | null = null;
  #answered = false;
  #saidDeaf = false;
  #timer: Timer | null = null;

  constructor(settings: ListenerSettings) {
    this.#settings = settings;
    this.#echo = `${settings.self} echo`;
    this.#heard = new Heard(settings.self, (hints) => settings.onHints(hints));
    void this.#open();
  }

  async stop(): Promise<void> {
    this.#active = false;
    this.#timer?.cancel();
    this.#heard.stop();
    const connection = this.#connection;
    this.#connection = null;
    if (connection !== null) await goodbye(connection);
  }

  async #open(): Promise<void> {
    let connection: PgListener;
    try {
      connection = await this.#settings.connect();
    } catch {
      this.#after(RECONNECT_MS, () => this.#open());
      return;
    }
    connection.on("error", () => this.#lost(connection));
    connection.on("end", () => this.#lost(connection));
    connection.on("notification", ({ payload = "" }) => this.#hear(connection, payload));
    if (!this.#active) return goodbye(connection);
    this.#connection = connection;
    const listens = await this.#ask(connection, () => connection.query({ text: `LISTEN "${this.#settings.channel}"` }));
    if (!listens) return;
    // Whatever was said while nobody listened.
    this.#settings.onHints([{ kind: "work", inMs: 0 }, { kind: "finished" }, { kind: "schedules" }]);
    await this.#check(connection);
  }

  /**
   * An answer proves that the connection was not cut without a word. Hearing what we say elsewhere proves that there is
   * no pooler in between which hears in our place: what is said on the same connection would come back even so.
   */
  async #check(connection: PgListener): Promise<void> {
    await this.#ask(connection, async () => {
      await connection.query({ text: "SELECT 1" });
      await this.#settings.say(this.#echo);
    });
  }

  /** Asks, and gives the connection up if that comes to nothing in time. False: it is given up. */
  async #ask(connection: PgListener, question: () => Promise<unknown>): Promise<boolean> {
    this.#answered = false;
    this.#after(ANSWER_MS, () => (this.#answered ? this.#deaf(connection) : this.#lost(connection)));
    try {
      await question();
    } catch {
      this.#lost(connection);
    }
    this.#answered = true;
    return this.#connection === connection;
  }

  #hear(connection: PgListener, payload: string): void {
    if (this.#connection !== connection) return;
    if (payload === this.#echo) this.#after(CHECK_MS, () => this.#check(connection));
    else this.#heard.hear(payload);
  }

  #lost(connection: PgListener): void {
    this.#giveUp(connection, RECONNECT_MS);
  }

  #deaf(connection: PgListener): void {
    if (!this.#saidDeaf) this.#settings.onDeaf();
    this.#saidDeaf = true;
    // The next one would hear no more than this one, unless someone mends it.
    this.#giveUp(connection, CHECK_MS);
  }

  #giveUp(connection: PgListener, againInMs: number): void {
    if (this.#connection !== connection) return;
    this.#connection = null;
    void goodbye(connection);
    this.#after(againInMs, () => this.#open());
  }

  /** One thing at a time is waited for. */
  #after(ms: number, then: () => unknown): void {
    this.#timer?.cancel();
    if (this.#active) this.#timer = this.#settings.clock.after(ms, () => void then(), { background: true });
  }
}

async function goodbye(connection: PgListener): Promise<void> {
  await Promise.resolve(connection.end()).catch(() => {});
}
