import { LIMITS } from "../../../defaults.js";
import type { Row } from "../connection/db.js";
import type { InsertMethod, KeyedResult } from "../jobs/insert-direct.js";
import { columnsOf, FINISHED_MEANWHILE, insertTexts } from "../jobs/insert-sql.js";
import { sqlFor, WAITING, type Sql } from "../connection/sql.js";
import type { SchemaSettings } from "./schema.js";

/**
 * The values of a batch, without the time: that is the server's, because with a later one a caller could take held keys.
 */
export const COLUMNS = {
  id: "uuid",
  type: "text",
  queue: "text",
  priority: "smallint",
  user: "text",
  input: "text",
  bytes: "integer",
  maxAttempts: "integer",
  runAt: "bigint",
  delayMs: "bigint",
  expiresAt: "bigint",
  tags: "text",
  schedule: "text",
  slot: "bigint",
  key: "text",
  scope: "text",
  periodMs: "bigint",
  trace: "text",
};
export const BATCH: readonly string[] = Object.values(COLUMNS).map((type) => `${type}[]`);
export const placeholderOf = (column: keyof typeof COLUMNS): string => `$${Object.keys(COLUMNS).indexOf(column) + 1}`;
const INPUTS = placeholderOf("input");
const BYTES = placeholderOf("bytes");
const KEYS = placeholderOf("key");
// The lock timeout in milliseconds, and the job that holds the key.
const WAIT = `$${BATCH.length + 1}`;
const HOLDER = `$${BATCH.length + 2}`;

// CREATE OR REPLACE FUNCTION cannot change the names and types of the columns that a function returns.
const FUNCTIONS = {
  plain: { name: "add_jobs", parameters: [...BATCH, "integer"] },
  keyed: { name: "add_keyed_jobs", parameters: [...BATCH, "integer"] },
  replace: { name: "replace_job", parameters: [...BATCH, "integer", "uuid"] },
} as const;

/** The signatures of the functions. */
export function insertSignatures({ schema: s }: SchemaSettings): string[] {
  return Object.values(FUNCTIONS).map(({ name, parameters }) => `${s}.${name}(${parameters.join(", ")})`);
}

/** Writes through functions that run with their owner's privileges, for clients with the role enqueue. */
export function functionInserts(sql: Sql): InsertMethod {
  const call = ({ name, parameters }: (typeof FUNCTIONS)[keyof typeof FUNCTIONS]): string =>
    `${sql.s}.${name}(${parameters.map((type, at) => `$${at + 1}::${type}`).join(", ")})`;
  const plain = sql.statement("add_jobs", `SELECT ${call(FUNCTIONS.plain)} AS fresh`);
  const keyed = sql.statement("add_keyed_jobs", `SELECT job, came, holder FROM ${call(FUNCTIONS.keyed)}`);
  const replace = sql.statement("replace_job", `SELECT ${call(FUNCTIONS.replace)} AS outcome`);
  const batch = (jobs: Parameters<typeof columnsOf>[0]): unknown[] => columnsOf(jobs, null).slice(1);
  return {
    async plain(runner, jobs, { waitMs }) {
      const [[fresh]] = (await runner.run(plain, [...batch(jobs), runner.inside ? null : waitMs])) as [Row];
      return fresh as string | null;
    },
    async keyed(runner, jobs, { waitMs }) {
      const rows = await runner.run(keyed, [...batch(jobs), waitMs]);
      const results = new Map(rows.map(([id, result, holder]) => [id, result ?? { holder: holder ?? undefined }]));
      return jobs.map(({ id }) => results.get(id) as KeyedResult);
    },
    async replace(runner, job, holder, { waitMs }) {
      const [[outcome]] = (await runner.run(replace, [...batch([job]), waitMs, holder])) as [Row];
      return outcome as "freed" | "kept" | "replaced";
    },
  };
}

const FIXED = "LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp";
/** Sets the lock timeout unless a shorter one is set, and restores it at the end. */
const LOCK_TIMEOUT = {
  declared: "the_wait text := current_setting('lock_timeout');",
  begin: `IF the_wait::interval = '0' OR the_wait::interval > ${WAIT} * interval '1 ms' THEN
    PERFORM pg_catalog.set_config('lock_timeout', ${WAIT}::text, true);
  END IF;`,
  end: "PERFORM set_config('lock_timeout', the_wait, true);",
};

/** SQL that creates the functions. */
export function insertFunctions({ schema: s, userType }: SchemaSettings): string {
  const texts = insertTexts(sqlFor(s, userType));
  const head = ({ name, parameters }: (typeof FUNCTIONS)[keyof typeof FUNCTIONS], returns: string): string =>
    `CREATE OR REPLACE FUNCTION ${s}.${name}(${parameters.join(", ")}) RETURNS ${returns} ${FIXED} AS $function$
#variable_conflict use_column`;
  // Computed here and not by the caller: workers rely on it.
  const bytes = `the_bytes integer[] := ARRAY(SELECT pg_catalog.octet_length(pg_catalog.convert_to(i.input, 'UTF8'))
    FROM pg_catalog.unnest(${INPUTS}) WITH ORDINALITY AS i (input, ordinal) ORDER BY i.ordinal);`;
  const checks = `PERFORM ${s}.check_jobs(${BATCH.map((_, at) => `$${at + 1}`).join(", ")});
  IF ${LIMITS.payloadBytes} < ANY (the_bytes) THEN
    RAISE EXCEPTION 'input exceeds ${LIMITS.payloadBytes} bytes of JSON' USING ERRCODE = '22023';
  END IF;`;
  /** A statement of the store with these parameters as its values; the first value is the time. */
  const bind = (text: string, more: readonly string[] = []): string => {
    const values = ["NULL", ...BATCH.map((_, at) => `$${at + 1}`), ...more].map((value) =>
      value === BYTES ? "the_bytes" : value,
    );
    return text.replaceAll(/\$(\d+)/g, (_, number: string) => values[Number(number) - 1] as string);
  };
  return `${head(FUNCTIONS.plain, "text")}
DECLARE
  ${LOCK_TIMEOUT.declared} ${bytes}
  fresh text; is_checked boolean;
BEGIN
  ${checks}
  ${LOCK_TIMEOUT.begin}
  ${bind(texts.plain(null))} INTO fresh, is_checked;
  ${LOCK_TIMEOUT.end}
  RETURN fresh;
END $function$;
${head(FUNCTIONS.keyed, "TABLE (job text, came text, holder text)")}
DECLARE
  ${LOCK_TIMEOUT.declared} ${bytes}
  each record;
BEGIN
  ${checks}
  ${LOCK_TIMEOUT.begin}
  FOR each IN ${bind(texts.keyed(null))} LOOP
    IF each.lost THEN
      RAISE EXCEPTION 'job % was enqueued concurrently with another key', each.id USING ERRCODE = '${FINISHED_MEANWHILE}';
    END IF;
    job := each.id;
    came := CASE WHEN each.inserted THEN 'new' WHEN each.known THEN 'known' END;
    holder := NULL;
    IF came IS NULL THEN
      SELECT k.job::text FROM ${s}.keys k WHERE k.key = (${KEYS})[pg_catalog.array_position($1, each.id::uuid)] INTO holder;
      -- This very job, just inserted by another transaction; or a deleted job whose key is held forever.
      IF holder = job AND (EXISTS (SELECT FROM ${s}.live l WHERE l.id = each.id::uuid)
        OR EXISTS (SELECT FROM ${s}.archive a WHERE a.id = each.id::uuid)) THEN
        came := 'known';
      END IF;
    END IF;
    RETURN NEXT;
  END LOOP;
  ${LOCK_TIMEOUT.end}
END $function$;
${head(FUNCTIONS.replace, "text")}
DECLARE
  ${LOCK_TIMEOUT.declared} ${bytes}
  the_state text; the_queue text; the_type text; still_holds boolean; done integer;
BEGIN
  ${checks}
  ${LOCK_TIMEOUT.begin}
  SELECT l.state, l.queue, l.type FROM ${s}.live l WHERE l.id = ${HOLDER} FOR UPDATE INTO the_state, the_queue, the_type;
  -- The holder may have lost the key to another job before it was locked.
  IF the_state IN ${WAITING} THEN
    PERFORM FROM ${s}.keys k WHERE k.key = (${KEYS})[1] AND k.job = ${HOLDER} FOR UPDATE;
  ELSE
    PERFORM FROM ${s}.keys k WHERE k.key = (${KEYS})[1] AND k.job = ${HOLDER};
  END IF;
  still_holds := FOUND;
  ${LOCK_TIMEOUT.end}
  IF NOT still_holds THEN RETURN 'freed'; END IF;
  IF the_state IS NULL OR the_state NOT IN ${WAITING} THEN RETURN 'kept'; END IF;
  DELETE FROM ${s}.tags g WHERE g.job = ${HOLDER};
  ${bind(texts.rewrite, [HOLDER, "the_queue", "the_type", "the_state"])} INTO done;
  INSERT INTO ${s}.tags (tag, seq, job) SELECT pg_catalog.unnest(l.tags), l.seq, l.id FROM ${s}.live l WHERE l.id = ${HOLDER};
  IF the_bytes[1] > ${LIMITS.inlineInputBytes} THEN
    INSERT INTO ${s}.inputs (job, input) VALUES (${HOLDER}, (${INPUTS})[1]::json)
    ON CONFLICT (job) DO UPDATE SET input = excluded.input;
  ELSE
    DELETE FROM ${s}.inputs i WHERE i.job = ${HOLDER};
  END IF;
  RETURN 'replaced';
END $function$;`;
}
