import type pg from "pg";
import { openPostgres } from "#src/stores/postgres/open.js";

/** What the pool needs of a server. */
interface SchemaServer {
  url(): string;
  newSchema(): string;
  query(text: string, values?: unknown[]): Promise<pg.QueryResult>;
}

interface PooledSchema {
  name: string;
  /** Version of its catalog entries when it was migrated. */
  version: string;
  /** SQL that empties the tables and restores the rows that the migration wrote. */
  reset: string;
}

const pools = new WeakMap<SchemaServer, SchemaPool>();

/** The schemas of a server that tests reuse. */
export function schemaPool(server: SchemaServer): SchemaPool {
  const pool = pools.get(server) ?? new SchemaPool(server);
  pools.set(server, pool);
  return pool;
}

/**
 * Migrated schemas of one test file, emptied and reused: to migrate one takes about a hundred times as long as to delete the
 * rows of a test. A schema is dropped instead if the test changed its structure, its grants or its statistics.
 */
class SchemaPool {
  readonly #server: SchemaServer;
  readonly #idle: PooledSchema[] = [];
  readonly #inUse = new Map<string, PooledSchema>();

  constructor(server: SchemaServer) {
    this.#server = server;
  }

  /** The name of an empty, migrated schema. */
  async acquire(): Promise<string> {
    return this.acquireIdle() ?? this.#use(await this.#migrate());
  }

  /** The name of an empty, migrated schema if there is an idle one. */
  acquireIdle(): string | null {
    const schema = this.#idle.pop();
    return schema === undefined ? null : this.#use(schema);
  }

  /** Takes a schema back once every store and session on it is closed. */
  async release(name: string): Promise<void> {
    const schema = this.#inUse.get(name);
    this.#inUse.delete(name);
    if (schema !== undefined && (await this.#reset(schema))) this.#idle.push(schema);
    else await this.#server.query(`DROP SCHEMA IF EXISTS ${name} CASCADE`);
  }

  #use(schema: PooledSchema): string {
    this.#inUse.set(schema.name, schema);
    return schema.name;
  }

  async #migrate(): Promise<PooledSchema> {
    const name = this.#server.newSchema();
    const store = openPostgres(`${this.#server.url()}?schema=${name}`, { notify: false });
    try {
      await store.migrate();
    } finally {
      await store.close();
    }
    const { rows } = await this.#server.query(catalogVersion(name));
    return { name, version: (rows as { version: string }[])[0]?.version ?? "", reset: await this.#resetOf(name) };
  }

  async #resetOf(name: string): Promise<string> {
    const { rows } = await this.#server.query(
      `SELECT relkind AS kind, quote_ident(relname) AS name FROM pg_class
       WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'S')`,
      [name],
    );
    const relations = rows as { kind: "r" | "S"; name: string }[];
    const saved = await Promise.all(
      relations.map(async ({ kind, name: relation }) => {
        if (kind === "S") return `SELECT setval('${name}.${relation}', 1, false);`;
        const { rows: found } = await this.#server.query(
          `SELECT quote_literal(coalesce(json_agg(t), '[]')) AS rows FROM ${name}.${relation} t`,
        );
        const [{ rows: kept } = { rows: "'[]'" }] = found as { rows: string }[];
        const restore = `INSERT INTO ${name}.${relation} SELECT * FROM json_populate_recordset(NULL::${name}.${relation}, ${kept});`;
        return `DELETE FROM ${name}.${relation};${kept === "'[]'" ? "" : restore}`;
      }),
    );
    return saved.join("\n");
  }

  async #reset({ name, version, reset }: PooledSchema): Promise<boolean> {
    try {
      // Replica: neither triggers nor foreign keys have a say. A session that a test left open must not block the next one.
      const results = (await this.#server.query(
        `BEGIN; SET LOCAL lock_timeout = '1s'; SET LOCAL session_replication_role = replica; ${reset} COMMIT; ${catalogVersion(name)}`,
      )) as unknown as pg.QueryResult[];
      const [found] = (results.at(-1)?.rows ?? []) as { version: string }[];
      return found?.version === version;
    } catch {
      return false;
    }
  }
}

/** A query that returns another value after any DDL on the schema, and after VACUUM or ANALYZE. */
function catalogVersion(schema: string): string {
  const relations = `SELECT oid FROM pg_class WHERE relnamespace = '${schema}'::regnamespace`;
  const entries = [
    `SELECT oid, xmin::text FROM pg_namespace WHERE nspname = '${schema}'`,
    `SELECT oid, xmin::text || ' ' || relpages || ' ' || reltuples FROM pg_class WHERE relnamespace = '${schema}'::regnamespace`,
    `SELECT oid, xmin::text FROM pg_proc WHERE pronamespace = '${schema}'::regnamespace`,
    `SELECT oid, xmin::text FROM pg_type WHERE typnamespace = '${schema}'::regnamespace`,
    `SELECT oid, xmin::text FROM pg_constraint WHERE connamespace = '${schema}'::regnamespace`,
    `SELECT attrelid, attnum || ' ' || xmin FROM pg_attribute WHERE attrelid IN (${relations})`,
    `SELECT indexrelid, xmin::text FROM pg_index WHERE indrelid IN (${relations})`,
    `SELECT oid, xmin::text FROM pg_trigger WHERE tgrelid IN (${relations})`,
    `SELECT oid, xmin::text FROM pg_policy WHERE polrelid IN (${relations})`,
    `SELECT oid, xmin::text FROM pg_rewrite WHERE ev_class IN (${relations})`,
    `SELECT oid, xmin::text FROM pg_attrdef WHERE adrelid IN (${relations})`,
  ];
  return `SELECT md5(string_agg(oid || ':' || version, ',' ORDER BY oid, version)) AS version FROM (${entries.join(" UNION ALL ")}) AS entry (oid, version)`;
}
