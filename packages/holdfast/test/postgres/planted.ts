import { randomBytes } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll } from "vitest";
import type { Server } from "./server.js";

/** A database with a planted copy of nearly every function, operator and type of PostgreSQL. */
export interface Planted {
  /** Address of the database, for a role that may only create schemas, with this search path. */
  address(searchPath: string): string;
  client(searchPath: string): Promise<pg.Client>;
  /** How many planted functions ran, by any role, rolled back or not. */
  runs(): Promise<number>;
  /** Runs SQL as a superuser with a safe search path. */
  query(text: string, values?: unknown[]): Promise<pg.QueryResult>;
}

/** Creates the database before the tests of the file, and drops it after them. */
export function plantedDatabase(server: Server): Planted {
  const own = randomBytes(4).toString("hex");
  const names = { database: `planted_${own}`, app: `app_${own}`, mallory: `mallory_${own}` };
  const at = (role: string | null, searchPath: string): string => {
    const url = new URL(server.url());
    url.pathname = names.database;
    if (role !== null) [url.username, url.password] = [role, "p"];
    url.searchParams.set("options", `-c search_path=${searchPath.replaceAll(" ", "")}`);
    return url.href;
  };
  const open = async (address: string): Promise<pg.Client> => {
    const client = new pg.Client({ connectionString: address });
    await client.connect();
    return client;
  };
  const run = async (role: string | null, text: string, values: unknown[] = []): Promise<pg.QueryResult> => {
    const client = await open(at(role, "pg_catalog"));
    try {
      return await client.query(text, values);
    } finally {
      await client.end();
    }
  };

  beforeAll(async () => {
    await server.query(`CREATE DATABASE ${names.database}`);
    for (const role of [names.app, names.mallory]) await server.query(`CREATE ROLE ${role} LOGIN PASSWORD 'p'`);
    await run(null, `GRANT CREATE ON SCHEMA public TO ${names.mallory}`);
    await run(null, `GRANT CREATE ON DATABASE ${names.database} TO ${names.app}`);
    await run(names.mallory, PLANT);
  }, 60_000);
  afterAll(async () => {
    await server.query(`DROP DATABASE IF EXISTS ${names.database} WITH (FORCE)`);
    for (const role of [names.app, names.mallory]) await server.query(`DROP ROLE IF EXISTS ${role}`);
  }, 60_000);

  return {
    address: (searchPath) => at(names.app, searchPath),
    client: (searchPath) => open(at(names.app, searchPath)),
    query: (text, values) => run(null, text, values),
    async runs() {
      const { rows } = await run(
        null,
        "SELECT CASE WHEN is_called THEN last_value ELSE 0 END::int AS n FROM public.runs",
      );
      return (rows as { n: number }[])[0]?.n ?? -1;
    },
  };
}

/** Types for whose combinations PostgreSQL has no operator, so that a planted one fits best. */
const MIXED = ["int2", "int4", "int8", "numeric", "float8", "text", "name", "uuid", "interval", "oid", "bool"];
const OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "||", "~"];
/** Functions with polymorphic arguments, with the types that statements call them with. */
const OF_ANYTHING = [
  ...["text", "uuid", "int2", "int4", "int8", "float8"].map(
    (type) => `unnest(pg_catalog.${type}[]) RETURNS SETOF pg_catalog.${type}`,
  ),
  ...["text", "uuid"].map((type) => `cardinality(pg_catalog.${type}[]) RETURNS int`),
  ...["text", "uuid"].map((type) => `array_to_json(pg_catalog.${type}[]) RETURNS pg_catalog.json`),
  ...["text", "uuid"].map((type) => `array_agg(pg_catalog.${type}) RETURNS pg_catalog.${type}[]`),
  "row_to_json(record) RETURNS pg_catalog.json",
  "to_json(pg_catalog.text) RETURNS pg_catalog.json",
  "json_build_object(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text) RETURNS pg_catalog.json",
];
const TYPES = ["text", "uuid", "json", "float8", "int8", "int4", "oid", "timestamptz", "regclass", "name"];
const RELATIONS = ["pg_class", "pg_roles", "pg_locks", "pg_stat_activity", "pg_index", "pg_namespace", "pg_type"];

/**
 * Run by a role that may only create in `public`. Each planted function increments a sequence, which no rollback undoes, and
 * then fails.
 */
const PLANT = `
CREATE SEQUENCE public.runs;
GRANT USAGE ON SEQUENCE public.runs TO PUBLIC;
CREATE FUNCTION public.planted(what pg_catalog.text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog AS
  $$ BEGIN PERFORM nextval('public.runs'); RAISE EXCEPTION 'planted % ran as %', what, current_user; END $$;
DO $plant$
DECLARE
  each record; n integer := 0;
  body text := $$ LANGUAGE plpgsql AS $b$ BEGIN PERFORM public.planted('%s'); RETURN NULL; END $b$ $$;
  set_body text := $$ LANGUAGE plpgsql AS $b$ BEGIN PERFORM public.planted('%s'); RETURN; END $b$ $$;
BEGIN
  -- A twin of each function that takes and gives what can be named.
  FOR each IN SELECT p.proname AS name, p.proretset AS many, format_type(p.prorettype, NULL) AS gives, (
      SELECT string_agg(format_type(t, NULL), ', ' ORDER BY at) FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, at)) AS takes
    FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'a', 'w') AND p.provariadic = 0
      AND NOT EXISTS (SELECT FROM unnest(p.proargtypes || p.prorettype) AS a (t) JOIN pg_type y ON y.oid = a.t WHERE y.typtype = 'p')
  LOOP
    EXECUTE format('CREATE OR REPLACE FUNCTION public.%I(%s) RETURNS %s %s', each.name, each.takes,
      CASE WHEN each.many THEN 'SETOF ' ELSE '' END || each.gives, format(CASE WHEN each.many THEN set_body ELSE body END, each.name));
  END LOOP;
  -- Of each operator, and of all mixtures that there are none for.
  FOR each IN SELECT o.oprname AS name, NULLIF(format_type(NULLIF(o.oprleft, 0), NULL), '-') AS a, format_type(o.oprright, NULL) AS b, format_type(o.oprresult, NULL) AS gives
      FROM pg_operator o WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND NOT EXISTS (
        SELECT FROM pg_type y WHERE y.oid IN (o.oprleft, o.oprright, o.oprresult) AND y.typtype = 'p')
    UNION ALL SELECT o, a.t, b.t, CASE WHEN o IN ('+', '-', '*', '/') THEN a.t WHEN o = '||' THEN 'text' ELSE 'boolean' END
      FROM unnest('{${OPERATORS.join(",")}}'::text[]) AS o, unnest('{${MIXED.join(",")}}'::text[]) AS a (t), unnest('{${MIXED.join(",")}}'::text[]) AS b (t)
      WHERE NOT EXISTS (SELECT FROM pg_operator k WHERE k.oprname = o AND k.oprleft = a.t::regtype AND k.oprright = b.t::regtype)
  LOOP
    n := n + 1;
    EXECUTE format('CREATE FUNCTION public.planted_%s(%s) RETURNS %s %s', n, concat_ws(', ', each.a, each.b), each.gives,
      format(body, replace(each.name, '%', '%%')));
    EXECUTE format('CREATE OPERATOR public.%s (FUNCTION = public.planted_%s%s, RIGHTARG = %s)', each.name, n,
      ', LEFTARG = ' || each.a, each.b);
  END LOOP;
END $plant$;
${OF_ANYTHING.map(
  (signature) =>
    `CREATE FUNCTION public.${signature} LANGUAGE plpgsql AS $$ BEGIN PERFORM public.planted('${signature}'); RETURN${signature.includes("SETOF") ? "" : " NULL"}; END $$;`,
).join("\n")}
${TYPES.map((type) => `CREATE DOMAIN public.${type} AS pg_catalog.${type} CHECK (public.planted('type ${type}'));`).join("\n")}
${RELATIONS.map((name) => `CREATE VIEW public.${name} AS SELECT * FROM pg_catalog.${name} WHERE public.planted('${name}'); GRANT SELECT ON public.${name} TO PUBLIC;`).join("\n")}
`;
