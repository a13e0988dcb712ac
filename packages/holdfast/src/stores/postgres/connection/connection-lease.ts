import { ClosedError } from "../../../errors.js";
import type { PgClient, PgPool } from "./db.js";
import { isConnectionLost, isServerFull } from "./errors.js";

// A server that was full is asked for more connections again after this.
const FULL_MS = 5_000;
// How often those who wait for a connection look whether the pool was ended meanwhile.
const ENDED_MS = 50;

/**
 * Lends connections of the pool, each for one piece of work.
 *
 * A server that refuses one more is not asked again for a while: whoever comes waits for one of those that it gave. Each
 * refusal costs the server a process, and the caller an error.
 */
export class Lending {
  readonly #pool: PgPool;
  #asked = 0;
  #lent = 0;
  #limit = Number.POSITIVE_INFINITY;
  #limitUntil = 0;
  readonly #waiting: (() => void)[] = [];
  readonly #asking = new Set<() => void>();
  #watching = false;
  readonly #onEnded: () => void;

  /** `onEnded`: the pool is the caller's and was ended; what else is held of it is to be let go. */
  constructor(pool: PgPool, onEnded: () => void = ignore) {
    this.#pool = pool;
    this.#onEnded = onEnded;
  }

  async using<Answer>(work: (client: PgClient) => Promise<Answer>): Promise<Answer> {
    return this.#lend(await this.#connect(), work);
  }

  /** Like `using`, but null if no connection is free for so long. */
  async usingIfFree<Answer>(waitMs: number, work: (client: PgClient) => Promise<Answer>): Promise<Answer | null> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<null>((resolve) => {
      timer = setTimeout(() => resolve(null), waitMs);
    });
    const connecting = this.#connect();
    const client = await Promise.race([connecting, late]).finally(() => clearTimeout(timer));
    if (client !== null) return this.#lend(client, work);
    // It comes too late, and goes back unused.
    connecting.then((unused) => this.#giveBack(unused, false), ignore);
    return null;
  }

  async #connect(): Promise<PgClient> {
    while (this.#asked >= this.#limit && performance.now() < this.#limitUntil) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#asked++;
    try {
      const client = await this.#ask();
      this.#lent++;
      return client;
    } catch (error) {
      this.#asked--;
      this.#waiting.shift()?.();
      if (!isServerFull(error) || this.#lent === 0) throw error;
      this.#limit = this.#lent;
      this.#limitUntil = performance.now() + FULL_MS;
      return this.#connect();
    }
  }

  /** Asks the pool, which never answers those who still wait when it is ended. */
  #ask(): Promise<PgClient> {
    if (this.#pool.ending === undefined) return this.#pool.connect();
    if (this.#isEnded()) return Promise.reject(poolEnded());
    const connecting = this.#pool.connect();
    return new Promise((resolve, reject) => {
      const giveUp = (): void => reject(poolEnded());
      this.#asking.add(giveUp);
      this.#watch();
      connecting.then(
        (client) => {
          if (this.#asking.delete(giveUp)) resolve(client);
          else client.release(true);
        },
        (error: Error) => {
          this.#asking.delete(giveUp);
          reject(this.#isEnded() ? poolEnded() : error);
        },
      );
    });
  }

  /** For as long as somebody waits. The pool tells nobody that it was ended. */
  #watch(): void {
    if (this.#watching) return;
    this.#watching = true;
    setTimeout(() => {
      this.#watching = false;
      if (this.#asking.size === 0) return;
      if (!this.#isEnded()) return this.#watch();
      for (const giveUp of this.#asking) giveUp();
      this.#asking.clear();
    }, ENDED_MS);
  }

  #isEnded(): boolean {
    const ended = this.#pool.ending === true || this.#pool.ended === true;
    if (ended) this.#onEnded();
    return ended;
  }

  async #lend<Answer>(client: PgClient, work: (client: PgClient) => Promise<Answer>): Promise<Answer> {
    let broken = true;
    // The pool listens on idle connections only. What breaks in use also fails the statement, and is told by that.
    client.on?.("error", ignore);
    try {
      const answer = await work(client);
      broken = false;
      return answer;
    } catch (error) {
      broken = isConnectionLost(error);
      throw error;
    } finally {
      this.#giveBack(client, broken);
      client.off?.("error", ignore);
    }
  }

  #giveBack(client: PgClient, broken: boolean): void {
    this.#asked--;
    this.#lent--;
    client.release(broken);
    this.#waiting.shift()?.();
  }
}

function poolEnded(): ClosedError {
  return new ClosedError("your pool was ended", "call hf.close() first");
}

function ignore(): void {}
