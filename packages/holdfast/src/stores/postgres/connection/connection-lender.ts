import { ClosedError } from "../../../errors.js";
import type { PgClient, PgPool } from "./db.js";
import { isConnectionLost, isServerFull } from "./errors.js";

// How long not to request more connections after the server had none.
const FULL_MS = 5_000;
// How often to check whether the pool was ended, while calls wait for a connection.
const ENDED_MS = 50;

/**
 * Lends connections of the pool, each for one piece of work.
 *
 * When the server refuses another connection, this does not request more for a while: calls wait for one of the
 * existing ones. Each refusal costs the server a process, and the caller an error.
 */
export class ConnectionLender {
  readonly #pool: PgPool;
  #requested = 0;
  #lent = 0;
  #limit = Number.POSITIVE_INFINITY;
  #limitUntil = 0;
  readonly #waiting: (() => void)[] = [];
  readonly #rejects = new Set<() => void>();
  #watching = false;
  readonly #onEnded: () => void;

  /** `onEnded`: called when the caller has ended the pool, to release what else uses it. */
  constructor(pool: PgPool, onEnded: () => void = ignore) {
    this.#pool = pool;
    this.#onEnded = onEnded;
  }

  async using<Result>(work: (client: PgClient) => Promise<Result>): Promise<Result> {
    return this.#lend(await this.#connect(), work);
  }

  /** Like `using`, but resolves to null if no connection is free within `waitMs`. */
  async usingIfFree<Result>(waitMs: number, work: (client: PgClient) => Promise<Result>): Promise<Result | null> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<null>((resolve) => {
      timer = setTimeout(() => resolve(null), waitMs);
    });
    const connecting = this.#connect();
    const client = await Promise.race([connecting, late]).finally(() => clearTimeout(timer));
    if (client !== null) return this.#lend(client, work);
    // Too late: release it unused.
    connecting.then((unused) => this.#release(unused, false), ignore);
    return null;
  }

  async #connect(): Promise<PgClient> {
    while (this.#requested >= this.#limit && performance.now() < this.#limitUntil) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#requested++;
    try {
      const client = await this.#request();
      this.#lent++;
      return client;
    } catch (error) {
      this.#requested--;
      this.#waiting.shift()?.();
      if (!isServerFull(error) || this.#lent === 0) throw error;
      this.#limit = this.#lent;
      this.#limitUntil = performance.now() + FULL_MS;
      return this.#connect();
    }
  }

  /** Requests a connection. When a pool is ended, it never settles the requests that still wait. */
  #request(): Promise<PgClient> {
    if (this.#pool.ending === undefined) return this.#pool.connect();
    if (this.#isEnded()) return Promise.reject(poolEnded());
    const connecting = this.#pool.connect();
    return new Promise((resolve, reject) => {
      const rejectEnded = (): void => reject(poolEnded());
      this.#rejects.add(rejectEnded);
      this.#watch();
      connecting.then(
        (client) => {
          if (this.#rejects.delete(rejectEnded)) resolve(client);
          else client.release(true);
        },
        (error: Error) => {
          this.#rejects.delete(rejectEnded);
          reject(this.#isEnded() ? poolEnded() : error);
        },
      );
    });
  }

  /** Runs while requests wait. The pool has no event for its end. */
  #watch(): void {
    if (this.#watching) return;
    this.#watching = true;
    setTimeout(() => {
      this.#watching = false;
      if (this.#rejects.size === 0) return;
      if (!this.#isEnded()) return this.#watch();
      for (const rejectEnded of this.#rejects) rejectEnded();
      this.#rejects.clear();
    }, ENDED_MS);
  }

  #isEnded(): boolean {
    const ended = this.#pool.ending === true || this.#pool.ended === true;
    if (ended) this.#onEnded();
    return ended;
  }

  async #lend<Result>(client: PgClient, work: (client: PgClient) => Promise<Result>): Promise<Result> {
    let broken = true;
    // The pool only listens for errors on idle connections. Here the statement fails too, and reports the error.
    client.on?.("error", ignore);
    try {
      const result = await work(client);
      broken = false;
      return result;
    } catch (error) {
      broken = isConnectionLost(error);
      throw error;
    } finally {
      this.#release(client, broken);
      client.off?.("error", ignore);
    }
  }

  #release(client: PgClient, broken: boolean): void {
    this.#requested--;
    this.#lent--;
    client.release(broken);
    this.#waiting.shift()?.();
  }
}

function poolEnded(): ClosedError {
  return new ClosedError("your pool was ended", "call hf.close() first");
}

function ignore(): void {}
