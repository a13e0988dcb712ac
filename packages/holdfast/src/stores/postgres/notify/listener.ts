import type { Clock, Timer } from "../../../clock.js";
import type { Hint } from "../../../store.js";
import { HintFilter } from "./hint-filter.js";

/** The part of a `pg` client that listening uses. */
export interface PgListener {
  query(config: { text: string }): Promise<unknown>;
  on(event: "notification", listener: (message: { payload?: string | undefined }) => void): unknown;
  on(event: "error" | "end", listener: (error?: Error) => void): unknown;
  end(): Promise<void> | void;
}

export interface ListenerSettings {
  connect(): Promise<PgListener>;
  /** Sends a notification on the channel, by another connection. */
  notify(payload: string): Promise<unknown>;
  channel: string;
  /** The sender of this process, whose notifications are ignored. */
  self: string;
  clock: Clock;
  onHints(hints: Hint[]): void;
  /** A transaction has left notes of waits that have ended. */
  onWakes?(): void;
  /** A connection responds to queries but receives no notifications. Called once. */
  onSilence(): void;
}

const CHECK_MS = 30_000;
const RESPONSE_MS = 5_000;
const RECONNECT_MS = 1_000;

/**
 * Keeps one connection listening, and replaces it when it is lost. Notifications are only hints: polling finds everything.
 */
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

/** One start of the listener, until it stops. */
class Listening {
  readonly #settings: ListenerSettings;
  readonly #echo: string;
  readonly #filter: HintFilter;
  #active = true;
  #connection: PgListener | null = null;
  #responded = false;
  #wasSilent = false;
  #timer: Timer | null = null;

  constructor(settings: ListenerSettings) {
    this.#settings = settings;
    this.#echo = `${settings.self} echo`;
    this.#filter = new HintFilter(
      settings.self,
      (hints) => settings.onHints(hints),
      () => settings.onWakes?.(),
    );
    void this.#open();
  }

  async stop(): Promise<void> {
    this.#active = false;
    this.#timer?.cancel();
    this.#filter.stop();
    const connection = this.#connection;
    this.#connection = null;
    if (connection !== null) await disconnect(connection);
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
    connection.on("notification", ({ payload = "" }) => this.#receive(connection, payload));
    if (!this.#active) return disconnect(connection);
    this.#connection = connection;
    const listens = await this.#withTimeout(connection, () =>
      connection.query({ text: `LISTEN "${this.#settings.channel}"` }),
    );
    if (!listens) return;
    // Notifications may have been missed before LISTEN.
    this.#settings.onHints([{ kind: "work", inMs: 0 }, { kind: "finished" }, { kind: "schedules" }]);
    await this.#check(connection);
  }

  /**
   * A response proves that the connection is not cut. Receiving a notification that another connection sent proves that
   * no pooler in between receives them instead; one from the same connection would arrive even then.
   */
  async #check(connection: PgListener): Promise<void> {
    await this.#withTimeout(connection, async () => {
      await connection.query({ text: "SELECT 1" });
      await this.#settings.notify(this.#echo);
    });
  }

  /** Runs a query, and replaces the connection if there is no response in time. False: it was replaced. */
  async #withTimeout(connection: PgListener, query: () => Promise<unknown>): Promise<boolean> {
    this.#responded = false;
    this.#after(RESPONSE_MS, () => (this.#responded ? this.#silent(connection) : this.#lost(connection)));
    try {
      await query();
    } catch {
      this.#lost(connection);
    }
    this.#responded = true;
    return this.#connection === connection;
  }

  #receive(connection: PgListener, payload: string): void {
    if (this.#connection !== connection) return;
    if (payload === this.#echo) this.#after(CHECK_MS, () => this.#check(connection));
    else this.#filter.receive(payload);
  }

  #lost(connection: PgListener): void {
    this.#replace(connection, RECONNECT_MS);
  }

  #silent(connection: PgListener): void {
    if (!this.#wasSilent) this.#settings.onSilence();
    this.#wasSilent = true;
    // A new connection will be silent too, until the configuration changes.
    this.#replace(connection, CHECK_MS);
  }

  #replace(connection: PgListener, retryInMs: number): void {
    if (this.#connection !== connection) return;
    this.#connection = null;
    void disconnect(connection);
    this.#after(retryInMs, () => this.#open());
  }

  /** Replaces the current timer. */
  #after(ms: number, then: () => unknown): void {
    this.#timer?.cancel();
    if (this.#active) this.#timer = this.#settings.clock.after(ms, () => void then(), { background: true });
  }
}

async function disconnect(connection: PgListener): Promise<void> {
  await Promise.resolve(connection.end()).catch(() => {});
}
