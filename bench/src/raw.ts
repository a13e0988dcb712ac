/**
 * A baseline without Holdfast: the same writes in a simple loop. One call is one transaction. Synchronous if the driver
 * is.
 */
export interface Raw<Lease = unknown> {
  insert(count: number): void | Promise<void>;
  claim(limit: number): readonly Lease[] | Promise<readonly Lease[]>;
  settle(leases: readonly Lease[]): void | Promise<void>;
  close(): void | Promise<void>;
}

export async function openRaw(url: string): Promise<Raw> {
  const colon = url.indexOf(":");
  switch (url.slice(0, colon)) {
    case "sqlite": {
      const { openRawSqlite } = await import("./raw-sqlite.js");
      return openRawSqlite(url.slice(colon + 1));
    }
    case "postgres": {
      const { openRawPostgres } = await import("./raw-postgres.js");
      return openRawPostgres(url);
    }
    case "dynamodb": {
      const { openRawDynamo } = await import("./raw-dynamodb.js");
      return openRawDynamo(url);
    }
    default:
      throw new Error(`no raw baseline for ${url}`);
  }
}
