import { randomBytes } from "node:crypto";
import pg from "pg";
import { onTestFinished } from "vitest";
import type { RunSql, Scene } from "./scene.js";
import type { Server } from "./server.js";

/** A login. */
export interface Login {
  role: string;
  /** The address of the scene's schema, as this role. */
  address: string;
  sql: RunSql;
}

/** A role that is dropped after the test. */
export async function newRole(server: Server, kind: string): Promise<string> {
  const role = `${kind}_${randomBytes(4).toString("hex")}`;
  await server.query(`CREATE ROLE ${role} LOGIN PASSWORD 'p'`);
  onTestFinished(async () => void (await server.query(`DROP OWNED BY ${role} CASCADE; DROP ROLE ${role}`)));
  return role;
}

/** Drops the roles of a scene's schema after the test. */
export function forgetRolesOf(server: Server, schema: string): void {
  onTestFinished(async () => {
    for (const name of ["enqueue", "work", "admin"].map((kind) => `${schema}_${kind}`)) {
      const { rows } = await server.query("SELECT 1 FROM pg_roles WHERE rolname = $1", [name]);
      if (rows.length > 0) await server.query(`DROP OWNED BY ${name} CASCADE; DROP ROLE ${name}`);
    }
  });
}

/** Logs in as a role on the scene's schema. */
export async function login(server: Server, { schema }: Scene, role: string): Promise<Login> {
  const url = new URL(server.url());
  url.username = role;
  url.password = "p";
  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  onTestFinished(() => client.end());
  const sql: RunSql = async <Row extends object>(text: string, values: unknown[] = []) =>
    (await client.query(text.replaceAll("$s", schema), values)).rows as Row[];
  return { role, address: `${url.href}?schema=${schema}`, sql };
}

/** Logs in as a new member of the scene's role of this kind. */
export async function memberOf(server: Server, scene: Scene, kind: "enqueue" | "work" | "admin"): Promise<Login> {
  const role = await newRole(server, kind);
  await server.query(`GRANT ${scene.schema}_${kind} TO ${role}`);
  return login(server, scene, role);
}
