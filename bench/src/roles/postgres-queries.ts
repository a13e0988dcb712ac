import pg from "pg";

/** Counts what clients of pg in this process send from now on. */
export function countQueries(): () => number {
  let queries = 0;
  const client = pg.Client.prototype as unknown as { query: (...args: unknown[]) => unknown };
  const { query } = client;
  client.query = function counted(this: unknown, ...args: unknown[]): unknown {
    queries++;
    return query.apply(this, args);
  };
  return () => queries;
}
