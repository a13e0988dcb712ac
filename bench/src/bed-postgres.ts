import { createRequire } from "node:module";
import { holdfast } from "holdfast";
import pg from "pg";
import type { Bed, Filling, Place } from "./bed.js";
import { fillEmptyLanes } from "./fill-lanes.js";
import { fillPostgres } from "./fill-postgres.js";
import { POSTGRES } from "./limits.js";
import { postgresServer } from "./postgres-server.js";

/** Databases of one server: a template for each filling, and a copy of the template for each trial. */
export async function postgresBed(folder: string): Promise<Bed> {
  const server = await postgresServer(folder);
  const templates = new Map<string, Promise<string>>();
  const made: string[] = [];

  const run = (text: string): Promise<pg.QueryResult> => runOn(server.url("postgres"), text);
  function newName(kind: string): string {
    const name = `holdfast_bench_${process.pid}_${kind}_${made.length}`;
    made.push(name);
    return name;
  }
  function placeIn(name: string): Place {
    return {
      url: server.url(name),
      remove: async () => void (await run(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)),
    };
  }
  async function makeTemplate(filling: readonly Filling[]): Promise<string> {
    const name = newName("template");
    await run(`CREATE DATABASE ${name}`);
    const hf = await holdfast({ store: server.url(name), logger: false });
    await hf.close();
    for (const { kind, count } of filling) if (kind === "empty lanes") await fillEmptyLanes(server.url(name), count);
    await fillPostgres(
      server.url(name),
      filling.filter(({ kind }) => kind !== "empty lanes"),
    );
    return name;
  }
  const base = newName("schemas");
  await run(`CREATE DATABASE ${base}`);
  let schemas = 0;

  return {
    store: "postgres",
    limits: POSTGRES,
    async facts() {
      const { rows } = await run(
        "SELECT name, setting FROM pg_settings WHERE name IN ('server_version', 'synchronous_commit', 'fsync', 'shared_buffers')",
      );
      const settings = Object.fromEntries(
        (rows as { name: string; setting: string }[]).map(({ name, setting }) => [name, setting]),
      );
      const driver = createRequire(import.meta.url)("pg/package.json") as { version: string };
      return {
        postgres: settings["server_version"] ?? "",
        pg: driver.version,
        durability: `fsync ${settings["fsync"]}, synchronous_commit ${settings["synchronous_commit"]}`,
        "shared buffers": `${Number(settings["shared_buffers"]) / 128} MB`,
      };
    },
    nowhere() {
      const schema = `bench_${++schemas}`;
      return {
        url: `${server.url(base)}?schema=${schema}`,
        remove: async () => void (await runOn(server.url(base), `DROP SCHEMA IF EXISTS ${schema} CASCADE`)),
      };
    },
    async place(filling) {
      const wanted = filling.filter(({ count }) => count > 0);
      const key = JSON.stringify(wanted);
      const template = templates.get(key) ?? makeTemplate(wanted);
      templates.set(key, template);
      const name = newName("trial");
      // Copy and sync the files before the trial starts, so that the trial does not pay for it.
      await run(`CREATE DATABASE ${name} TEMPLATE ${await template} STRATEGY file_copy`);
      return placeIn(name);
    },
    async hold({ url }) {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
      await client.query("SELECT count(*) FROM holdfast.lanes");
      return () => client.end();
    },
    async close() {
      for (const name of made) await run(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
      await server.stop();
    },
  };
}

async function runOn(url: string, text: string): Promise<pg.QueryResult> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await client.query(text);
  } finally {
    await client.end();
  }
}
