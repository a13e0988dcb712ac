import { fault, sqlState } from "./faults.js";

/** A statement with the name under which connections keep it prepared; one without a name is not kept. */
export interface Statement {
  name: string;
  text: string;
}

/** One row, column by column: made and read at half the cost of an object. */
export type Row = readonly unknown[];

/** Where statements are run: the pool, a transaction of ours, or the caller's. */
export interface Runner {
  run(statement: Statement, values: readonly unknown[]): Promise<Row[]>;
}

/** A transaction of ours. */
export interface Transaction extends Runner {
  /** Text of several statements, without values. */
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
}
export interface PgClient extends PgQueryable {
  release(destroy?: boolean | Error): void;
}
export interface PgPool extends PgQueryable {
  connect(): Promise<PgClient>;
  end(): Promise<void>;
  on?(event: "error", listener: (error: Error) => void): unknown;
}

const DEADLOCK = new Set(["40P01", "40001"]);
// A pooler in transaction mode hands each statement to whichever connection is free, which has other statements prepared.
const NOT_PREPARED = new Set(["26000", "42P05"]);
const TRIES = 5;

/** Runs statements on a pool. */
export class Db implements Runner {
  readonly #pool: PgPool;
  readonly #where: string;
  #prepare = true;

  constructor(pool: PgPool, where: string) {
    this.#pool = pool;
    this.#where = where;
    // An idle connection that breaks is replaced by the pool; without a listener it would end the process.
    pool.on?.("error", () => {});
  }

  async run(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    return this.#retrying(async () => {
      const client = await this.#pool.connect();
      return this.#using(client, () => query(client, statement, values, this.#prepare));
    });
  }

  /** All or nothing. Repeated from the start if it met a deadlock. */
  async transaction<Answer>(work: (runner: Transaction) => Promise<Answer>): Promise<Answer> {
    return this.#retrying(async () => {
      const client = await this.#pool.connect();
      return this.#using(client, async () => {
        await client.query({ text: "BEGIN" });
        const runner: Transaction = {
          run: (statement, values) => query(client, statement, values, this.#prepare),
          script: async (text) => void (await client.query({ text })),
        };
        try {
          const answer = await work(runner);
          await client.query({ text: "COMMIT" });
          return answer;
        } catch (error) {
          await client.query({ text: "ROLLBACK" });
          throw error;
        }
      });
    });
  }

  async end(): Promise<void> {
    await this.#pool.end();
  }

  async #using<Answer>(client: PgClient, work: () => Promise<Answer>): Promise<Answer> {
    let broken = true;
    try {
      const answer = await work();
      broken = false;
      return answer;
    } catch (error) {
      // An error with a code of PostgreSQL's came over a connection that works.
      broken =
        !/^[0-9A-Z]{5}$/.test(sqlState(error)) || sqlState(error).startsWith("57P") || sqlState(error).startsWith("08");
      throw error;
    } finally {
      client.release(broken);
    }
  }

  async #retrying<Answer>(work: () => Promise<Answer>): Promise<Answer> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await work();
      } catch (error) {
        const code = sqlState(error);
        if (NOT_PREPARED.has(code) && this.#prepare) this.#prepare = false;
        else if (!DEADLOCK.has(code) || attempt >= TRIES) throw fault(error, this.#where);
      }
    }
  }
}

/** Anything with `query(text, values)`: a `pg` client, or an adapter to what you have. */
export interface CallersTransaction {
  query(text: string, values: unknown[]): Promise<{ rows: readonly unknown[] }>;
}

/** The caller's own connection, inside the caller's own transaction. */
export function callersRunner(tx: CallersTransaction, where: string): Runner {
  return {
    async run({ text }, values) {
      try {
        const { rows } = await tx.query(text, [...values]);
        return rows.map((row) => (Array.isArray(row) ? (row as Row) : Object.values(row as object)));
      } catch (error) {
        throw fault(error, where);
      }
    },
  };
}

async function query(
  client: PgQueryable,
  { name, text }: Statement,
  values: readonly unknown[],
  prepare: boolean,
): Promise<Row[]> {
  const config: PgQuery = { text, values, rowMode: "array" };
  if (prepare && name !== "") config.name = name;
  return (await client.query(config)).rows;
}
