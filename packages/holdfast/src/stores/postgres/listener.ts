import type { Hint } from "../../store.js";
import { StoreUnavailable } from "../../errors.js";
import type { Clock, Timer } from "../../clock.js";

/** A connection that hears notifications, as far as it is used here. */
export interface PgListener {
  query(text: string): Promise<unknown>;
  on(event: "notification", listener: (message: { payload?: string | undefined }) => void): unknown;
  on(event: "error" | "end", listener: (error?: Error) => void): unknown;
  end(): Promise<void> | void;
}

// A connection that was cut without a word is noticed by asking it something now and then.
const CHECK_MS = 30_000;
const CHECK_TIMEOUT_MS = 5_000;
const RECONNECT_MS = 1_000;

/** Keeps one connection listening, and replaces it when it is gone. Only hints are at stake: polling is the truth. */
export class Listener {
  readonly #connect: () => Promise<PgListener>;
  readonly #channel: string;
  readonly #clock: Clock;
  readonly #onHints: (hints: Hint[]) => void;
  readonly #self: string;
  #active = false;
  #connection: PgListener | null = null;
  #timer: Timer | null = null;
  #work: Promise<void> = Promise.resolve();

  constructor(
    connect: () => Promise<PgListener>,
    channel: string,
    self: string,
    clock: Clock,
    onHints: (hints: Hint[]) => void,
  ) {
    this.#connect = connect;
    this.#channel = channel;
    this.#self = self;
    this.#clock = clock;
    this.#onHints = onHints;
  }

  start(): void {
    if (this.#active) return;
    this.#active = true;
    this.#work = this.#work.then(() => this.#open());
  }

  async stop(): Promise<void> {
    this.#active = false;
    this.#timer?.cancel();
    this.#timer = null;
    await this.#work;
    await this.#close();
  }

  async #close(): Promise<void> {
    const connection = this.#connection;
    this.#connection = null;
    if (connection !== null) await Promise.resolve(connection.end()).catch(() => {});
  }

  async #open(): Promise<void> {
    if (!this.#active) return;
    try {
      const connection = await this.#connect();
      connection.on("error", () => this.#lost(connection));
      connection.on("end", () => this.#lost(connection));
      connection.on("notification", ({ payload }) => this.#hear(payload ?? ""));
      this.#connection = connection;
      await connection.query(`LISTEN ${this.#channel}`);
      // Whatever was said while nobody listened.
      this.#onHints([{ kind: "work", inMs: 0 }, { kind: "finished" }, { kind: "schedules" }]);
      this.#after(CHECK_MS, () => this.#check(connection));
    } catch {
      await this.#close();
      this.#after(RECONNECT_MS, () => this.#open());
    }
  }

  #after(ms: number, then: () => Promise<void>): void {
    if (!this.#active) return;
    this.#timer?.cancel();
    const due = (): void => {
      this.#work = this.#work.then(then);
    };
    this.#timer = this.#clock.after(ms, due, { background: true });
  }

  async #check(connection: PgListener): Promise<void> {
    if (this.#connection !== connection) return;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new StoreUnavailable("no answer")), CHECK_TIMEOUT_MS);
      timer.unref();
    });
    try {
      await Promise.race([connection.query("SELECT 1"), late]);
      this.#after(CHECK_MS, () => this.#check(connection));
    } catch {
      this.#lost(connection);
    } finally {
      clearTimeout(timer);
    }
  }

  #lost(connection: PgListener): void {
    if (this.#connection !== connection) return;
    this.#connection = null;
    void Promise.resolve(connection.end()).catch(() => {});
    this.#after(RECONNECT_MS, () => this.#open());
  }

  #hear(payload: string): void {
    const [from, kind = "", rest = ""] = payload.split(" ");
    if (from === this.#self) return;
    if (kind === "work") this.#onHints([{ kind: "work", inMs: 0 }]);
    else if (kind === "finished") this.#onHints([{ kind: "finished" }]);
    else if (kind === "schedules") this.#onHints([{ kind: "schedules" }]);
    else if (kind === "cancel") this.#onHints([{ kind: "cancel", ids: rest.split(",") }]);
  }
}
