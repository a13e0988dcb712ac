import type { LegacyImportOptions, PostgresStore } from "holdfast/postgres";
import { onTestFinished } from "vitest";
import { openStore } from "./scene.js";
import type { Server } from "./server.js";

/** A migrated store, and a schema with old tables. */
export interface Scene {
  store: PostgresStore;
  address: string;
  /** The schema of the store's tables. */
  schema: string;
  /** The schema of the old tables. */
  old: string;
  query: (text: string, values?: unknown[]) => Promise<Record<string, unknown>[]>;
}

export async function scene(server: Server): Promise<Scene> {
  const { store, schema, address } = await openStore(server);
  const old = `${schema}_old`;
  onTestFinished(async () => void (await server.query(`DROP SCHEMA IF EXISTS ${old} CASCADE`)));
  await server.query(`CREATE SCHEMA ${old}`);
  return {
    store,
    address,
    schema,
    old,
    query: async (text, values) => (await server.query(text, values)).rows as Record<string, unknown>[],
  };
}

export const IDS = {
  pending: "7b0e5cb4-0c3e-4c1e-9d7a-000000000001",
  processing: "7b0e5cb4-0c3e-4c1e-9d7a-000000000002",
  complete: "7b0e5cb4-0c3e-4c1e-9d7a-000000000003",
  failed: "7b0e5cb4-0c3e-4c1e-9d7a-000000000004",
} as const;
export const USER = "11111111-2222-4333-8444-555555555555";
export const CONNECTION = "99999999-8888-4777-8666-555555555555";

/** The tables of the seed: one with jobs, one that is unused. */
export async function seedTables({ old, query }: Scene): Promise<void> {
  await query(`
    CREATE TABLE ${old}.email_processing_jobs (
      id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
      user_id UUID NOT NULL,
      connection_id UUID NOT NULL,
      status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'processing', 'complete', 'failed')),
      result_summary JSONB,
      error_message TEXT,
      created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
      started_at TIMESTAMPTZ,
      completed_at TIMESTAMPTZ,
      updated_at TIMESTAMPTZ NOT NULL DEFAULT now()
    );
    CREATE TABLE ${old}.email_digest_batches (id UUID PRIMARY KEY, user_id UUID, created_at TIMESTAMPTZ DEFAULT now());
    INSERT INTO ${old}.email_processing_jobs
      (id, user_id, connection_id, status, result_summary, error_message, created_at, started_at, completed_at, updated_at) VALUES
      ('${IDS.pending}', '${USER}', '${CONNECTION}', 'pending', NULL, NULL, '2026-02-20T10:00:00Z', NULL, NULL, '2026-02-20T10:00:00Z'),
      ('${IDS.processing}', '${USER}', '${CONNECTION}', 'processing', NULL, NULL, '2026-02-20T11:00:00Z', '2026-02-20T11:00:05Z', NULL, '2026-02-20T11:00:05Z'),
      ('${IDS.complete}', '${USER}', '${CONNECTION}', 'complete', '{"emails": 12}', NULL, '2026-02-20T08:00:00Z', '2026-02-20T08:00:01Z', '2026-02-20T08:05:00.25Z', '2026-02-20T08:05:01Z'),
      ('${IDS.failed}', '${USER}', '${CONNECTION}', 'failed', NULL, 'Gmail said 403', '2026-02-20T09:00:00Z', '2026-02-20T09:00:01Z', '2026-02-20T09:00:02Z', '2026-02-20T09:00:03Z');`);
}

export function seedImport({ old }: Scene, more: Partial<LegacyImportOptions> = {}): LegacyImportOptions {
  return {
    table: `${old}.email_processing_jobs`,
    type: "email_processing",
    map: {
      id: "id",
      user: "user_id",
      status: "status",
      input: ["connection_id"],
      output: "result_summary",
      error: "error_message",
      createdAt: "created_at",
      startedAt: "started_at",
      finishedAt: "completed_at",
      updatedAt: "updated_at",
    },
    ...more,
  };
}

/** Everything that an import could change. */
export async function everything({ store, schema, old, query }: Scene): Promise<unknown> {
  const rows = (table: string, from: string): Promise<unknown> =>
    query(`SELECT to_jsonb(r) AS row FROM ${from}.${table} r ORDER BY 1`);
  const tables = ["live", "archive", "inputs", "tags", "deltas", "counts", "lanes", "attempts"];
  const names = await query("SELECT tablename FROM pg_tables WHERE schemaname = $1 ORDER BY 1", [old]);
  return {
    own: await Promise.all(tables.map((table) => rows(table, schema))),
    old: await Promise.all(names.map(({ tablename }) => rows(tablename as string, old))),
    names,
    stats: await store.stats(),
  };
}
