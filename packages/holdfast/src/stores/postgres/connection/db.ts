import { InvalidOptionError } from "../../../errors.js";
import { fault, isConnectionLost, isServerFull, sqlState } from "./errors.js";
import { Lending } from "./connection-lease.js";
import { qualify, type Qualified } from "./qualify.js";

/**
 * A statement with the name under which connections keep it prepared. One without a name is not kept; it is of the kind
 * that is run now and then, and may take as long as it needs.
 */
export interface Statement {
  name: string;
  text: Qualified;
  /** Without a name, but never long under way: given up as one with a name is. */
  brief?: true;
}

/** A statement that is run now and then. */
export function unnamed(text: string): Statement {
  return { name: "", text: qualify(text) };
}

/** One row, column by column: made and read at half the cost of an object. */
export type Row = readonly unknown[];

/** Where statements are run: the pool, a transaction of ours, or the caller's. */
export interface Runner {
  run(statement: Statement, values: readonly unknown[]): Promise<Row[]>;
}

/** A transaction of ours. */
export interface Transaction extends Runner {
  /** Text of several statements, without values. It is sent as it is: what it names must not depend on the search path. */
  script(text: string): Promise<void>;
}

/** The part of a `pg` client or pool that is used here. */
export interface PgQueryable {
  query(config: PgQuery): Promise<{ rows: Row[]; rowCount?: number | null }>;
}
interface PgQuery {
  name?: string;
  text: string;
  values?: readonly unknown[];
  rowMode?: "array";
  types?: { getTypeParser(oid: number): (text: string) => unknown };
  query_timeout?: number;
}
export interface PgClient extends PgQueryable {
  release(destroy?: boolean | Error): void;
  on?(event: "error", listener: (error: Error) => void): unknown;
  off?(event: "error", listener: (error: Error) => void): unknown;
}
export interface PgPool extends PgQueryable {
  connect(): Promise<PgClient>;
  end(): Promise<void>;
  on?(event: "error", listener: (error: Error) => void): unknown;
  /** Whether `end` was called, and whether it is done. A pool that does not say is not watched. */
  readonly ending?: boolean;
  readonly ended?: boolean;
}

export interface DbOptions {
  /** False: the pool is the caller's, and stays open. */
  owned?: boolean;
  /** Called when the caller has ended the pool: what else is held of it is to be let go. */
  onEnded?: () => void;
  /** How long a statement with a name, or a brief one, may go without an answer before its connection is given up. */
  answerMs?: number;
}

const DEADLOCK = "40P01";
// Never met where each statement sees what is committed, which is what every statement here is written for.
const NOT_SERIALIZABLE = "40001";
// A savepoint outside of any transaction.
const NO_TRANSACTION = "25P01";
// A pooler in transaction mode hands each statement to whichever connection is free, which has other statements prepared.
const NOT_PREPARED = new Set(["26000", "42P05"]);
const TRIES = 5;
// A server that has not one connection for us is asked again this much later, and then twice that, and so on.
const FULL_MS = 50;
// A connection whose other end is gone without a word would otherwise be waited on for a quarter of an hour.
const ANSWER_MS = 30_000;
const BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED";
const BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";

/** Runs statements on a pool. Holds one connection for one statement or transaction, and never waits for a second. */
export class Db implements Runner {
  readonly #pool: PgPool;
  readonly #where: string;
  readonly #owned: boolean;
  readonly #answerMs: number;
  /** How statements are sent; both change for good when the first statement shows that it must be otherwise. */
  #mode: Mode = { prepare: true, begin: false };
  readonly #lending: Lending;

  constructor(pool: PgPool, where: string, { owned = true, onEnded, answerMs = ANSWER_MS }: DbOptions = {}) {
    this.#pool = pool;
    this.#lending = new Lending(pool, onEnded);
    this.#where = where;
    this.#owned = owned;
    this.#answerMs = answerMs;
    guard(pool);
  }

  async run(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    return this.#retrying((mode) => this.#lending.using((client) => this.#runOn(client, mode, statement, values)));
  }

  /** Like `run`, but gives up if no connection is free for so long: null, and nothing was done. */
  async runIfFree(waitMs: number, statement: Statement, values: readonly unknown[]): Promise<Row[] | null> {
    return this.#retrying((mode) =>
      this.#lending.usingIfFree(waitMs, (client) => this.#runOn(client, mode, statement, values)),
    );
  }

  /**
   * A single statement that may take as long as it needs, outside of any transaction, and is tried once: what it leaves
   * behind when it fails may be in the way of another try. When `signal` is aborted it is not waited for any longer, and its
   * connection given up; the server goes on with it.
   */
  async runLong(text: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#lending.using((client) => {
        signal.throwIfAborted();
        return Promise.race([client.query({ text }), abortOf(signal)]);
      });
    } catch (error) {
      throw fault(error, this.#where);
    }
  }

  /** All or nothing. Repeated from the start if it met a deadlock. */
  async transaction<Answer>(work: (runner: Transaction) => Promise<Answer>): Promise<Answer> {
    return this.#retrying((mode) => this.#lending.using((client) => this.#transact(client, mode, work)));
  }

  /** Reads that all see the same. */
  async snapshot<Answer>(work: (runner: Runner) => Promise<Answer>): Promise<Answer> {
    return this.#retrying((mode) =>
      this.#lending.using((client) => this.#transact(client, mode, work, BEGIN_SNAPSHOT)),
    );
  }

  async end(): Promise<void> {
    if (this.#owned) await this.#pool.end();
  }

  async #runOn(client: PgClient, mode: Mode, statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    if (mode.begin) return this.#transact(client, mode, (runner) => runner.run(statement, values));
    return this.#query(client, mode, statement, values);
  }

  async #transact<Answer>(
    client: PgClient,
    mode: Mode,
    work: (runner: Transaction) => Promise<Answer>,
    begin = BEGIN,
  ): Promise<Answer> {
    const say = async (text: string): Promise<void> =>
      void (await client.query({ text, query_timeout: this.#answerMs }));
    await say(begin);
    try {
      const answer = await work({
        run: (statement, values) => this.#query(client, mode, statement, values),
        // What changes the schema may take its time.
        script: async (text) => void (await client.query({ text })),
      });
      await say("COMMIT");
      return answer;
    } catch (error) {
      // What went wrong first is what counts, not that a connection which is gone cannot roll back.
      if (!isConnectionLost(error)) await say("ROLLBACK");
      throw error;
    }
  }

  async #query(client: PgClient, mode: Mode, statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    const { name, text, brief = false } = statement;
    const config: PgQuery = { text, values, rowMode: "array", types: TYPES };
    if (name !== "" || brief) config.query_timeout = this.#answerMs;
    if (name !== "" && mode.prepare) config.name = name;
    return (await client.query(config)).rows;
  }

  async #retrying<Answer>(work: (mode: Mode) => Promise<Answer>): Promise<Answer> {
    for (let attempt = 1; ; attempt++) {
      const mode = this.#mode;
      try {
        return await work(mode);
      } catch (error) {
        const code = sqlState(error);
        // By the mode that it was sent in: others may have learnt the same meanwhile.
        if (mode.prepare && NOT_PREPARED.has(code)) this.#mode = { ...this.#mode, prepare: false };
        else if (!mode.begin && code === NOT_SERIALIZABLE) this.#mode = { ...this.#mode, begin: true };
        else if (attempt >= TRIES) throw fault(error, this.#where);
        else if (isServerFull(error)) await passing(FULL_MS * 2 ** attempt);
        else if (code !== DEADLOCK) throw fault(error, this.#where);
      }
    }
  }
}

interface Mode {
  /** Statements are kept prepared under their names. */
  prepare: boolean;
  /** Single statements say which isolation they need, since the database's default is another. */
  begin: boolean;
}

const guarded = new WeakSet<PgPool>();
/**
 * An idle connection that breaks is replaced by the pool; without a listener it would end the process. Once for each pool,
 * and for good: a connection that we gave back may still break after we are closed.
 */
function guard(pool: PgPool): void {
  if (guarded.has(pool)) return;
  guarded.add(pool);
  pool.on?.("error", () => {});
}

function abortOf(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  });
}

function passing(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}

const READERS = new Map<number, (text: string) => unknown>([
  [16, (text) => text === "t"],
  [21, Number],
  [23, Number],
  [701, Number],
]);
/** The types that statements answer with, read the same way whatever parsers the application has set for its own. */
const TYPES = { getTypeParser: (oid: number) => READERS.get(oid) ?? ((text: string): string => text) };

/** Anything with `query(text, values)`: a `pg` client, or an adapter to what you have. */
export interface CallersTransaction {
  query(text: string, values: unknown[]): Promise<{ rows: readonly unknown[] }>;
}

/** The caller's own connection, inside the caller's own transaction. */
export function callersRunner(tx: CallersTransaction, where: string): Runner {
  return {
    async run({ text }, values) {
      try {
        const answer = (await tx.query(text, [...values])) as Partial<{ rows: readonly unknown[] }> | undefined;
        if (!Array.isArray(answer?.rows)) throw new InvalidOptionError("tx.query", "must give { rows }");
        return answer.rows.map((row) => (Array.isArray(row) ? (row as Row) : Object.values(row as object)));
      } catch (error) {
        // Only who began the transaction can repeat it, and looks for these codes to know that it should.
        const code = sqlState(error);
        if ([DEADLOCK, NOT_SERIALIZABLE].includes(code)) throw error;
        if (code === NO_TRANSACTION)
          throw new InvalidOptionError("tx", "has no open transaction; run BEGIN on it first");
        throw fault(error, where);
      }
    },
  };
}

/**
 * What is done in one transaction is done one after the other: savepoints of two jobs must not interleave. Between two
 * turns whoever hears of the first gets in: a ROLLBACK that comes in the middle of the second would leave what it writes
 * outside of any transaction. One that comes before it makes its savepoint fail.
 */
export class Turns {
  readonly #last = new WeakMap<object, Promise<unknown>>();

  async take<Answer>(of: object, work: () => Promise<Answer>): Promise<Answer> {
    const turn = (this.#last.get(of) ?? Promise.resolve()).then(work);
    const heard = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
    this.#last.set(of, turn.then(heard, heard));
    return turn;
  }
}
