import { LIMITS } from "../../../defaults.js";
import type { Row } from "../connection/db.js";
import type { InsertWay, KeyedResult } from "../jobs/insert-direct.js";
import { columnsOf, FINISHED_MEANWHILE, insertTexts } from "../jobs/insert-sql.js";
import { sqlFor, WAITING, type Sql } from "../connection/sql.js";
import type { SchemaSettings } from "./schema.js";

/** The values of a batch, without the time: it is the server's, or whoever gave a later one could take keys that are held. */
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
export const placeOf = (column: keyof typeof COLUMNS): string => `$${Object.keys(COLUMNS).indexOf(column) + 1}`;
const INPUTS = placeOf("input");
const BYTES = placeOf("bytes");
const KEYS = placeOf("key");
// How long locks are waited for, in milliseconds, and the job that holds the key.
const WAIT = `$${BATCH.length + 1}`;
const HOLDER = `$${BATCH.length + 2}`;

const FUNCTIONS = {
  plain: { name: "add_jobs", takes: [...BATCH, "integer"] },
  keyed: { name: "add_keyed_jobs", takes: [...BATCH, "integer"] },
  replace: { name: "replace_job", takes: [...BATCH, "integer", "uuid"] },
} as const;

/** With the types of their parameters. */
export function insertSignatures({ schema: s }: SchemaSettings): string[] {
  return Object.values(FUNCTIONS).map(({ name, takes }) => `${s}.${name}(${takes.join(", ")})`);
}

/** By functions that write with their owner's rights, for those who may enqueue and nothing else. */
export function functionsWay(sql: Sql): InsertWay {
  const call = ({ name, takes }: (typeof FUNCTIONS)[keyof typeof FUNCTIONS]): string =>
    `${sql.s}.${name}(${takes.map((type, at) => `$${at + 1}::${type}`).join(", ")})`;
  const plain = sql.statement("add_jobs", `SELECT ${call(FUNCTIONS.plain)} AS fresh`);
  const keyed = sql.statement("add_keyed_jobs", `SELECT job, came, holder FROM ${call(FUNCTIONS.keyed)}`);
  const replace = sql.statement("replace_job", `SELECT ${call(FUNCTIONS.replace)} AS became`);
  const batch = (jobs: Parameters<typeof columnsOf>[0]): unknown[] => columnsOf(jobs, null).slice(1);
  return {
    async plain(runner, jobs, { waitMs }) {
      const [[fresh]] = (await runner.run(plain, [...batch(jobs), runner.inside ? null : waitMs])) as [Row];
      return fresh as string | null;
    },
    async keyed(runner, jobs, { waitMs }) {
      const rows = await runner.run(keyed, [...batch(jobs), waitMs]);
      const answers = new Map(rows.map(([id, came, holder]) => [id, came ?? { holder: holder ?? undefined }]));
      return jobs.map(({ id }) => answers.get(id) as KeyedResult);
    },
    async replace(runner, job, holder, { waitMs }) {
      const [[became]] = (await runner.run(replace, [...batch([job]), waitMs, holder])) as [Row];
      return became as "freed" | "kept" | "replaced";
    },
  };
}

const FIXED = "LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp";
/** Waits for locks as asked, unless less is set already; and after it as before. */
const PATIENCE = {
  declared: "the_wait text := current_setting('lock_timeout');",
  begin: `IF the_wait::interval = '0' OR the_wait::interval > ${WAIT} * interval '1 ms' THEN
    PERFORM pg_catalog.set_config('lock_timeout', ${WAIT}::text, true);
  END IF;`,
  end: "PERFORM set_config('lock_timeout', the_wait, true);",
};

/** SQL that makes the functions. */
export function insertFunctions({ schema: s, userType }: SchemaSettings): string {
  const texts = insertTexts(sqlFor(s, userType));
  const head = ({ name, takes }: (typeof FUNCTIONS)[keyof typeof FUNCTIONS], gives: string): string =>
    `CREATE OR REPLACE FUNCTION ${s}.${name}(${takes.join(", ")}) RETURNS ${gives} ${FIXED} AS $function$
#variable_conflict use_column`;
  // As long as the inputs are, and not as the caller says: workers rely on it.
  const bytes = `the_bytes integer[] := ARRAY(SELECT pg_catalog.octet_length(pg_catalog.convert_to(i.input, 'UTF8'))
    FROM pg_catalog.unnest(${INPUTS}) WITH ORDINALITY AS i (input, place) ORDER BY i.place);`;
  const checks = `PERFORM ${s}.check_jobs(${BATCH.map((_, at) => `$${at + 1}`).join(", ")});
  IF ${LIMITS.payloadBytes} < ANY (the_bytes) THEN
    RAISE EXCEPTION 'an input is more than ${LIMITS.payloadBytes} bytes of JSON' USING ERRCODE = '22023';
  END IF;`;
  /** A statement of the store, whose first value is the time. */
  const bind = (text: string, more: readonly string[] = []): string => {
    const values = ["NULL", ...BATCH.map((_, at) => `$${at + 1}`), ...more].map((value) =>
      value === BYTES ? "the_bytes" : value,
    );
    return text.replaceAll(/\$(\d+)/g, (_, place: string) => values[Number(place) - 1] as string);
  };
  return `${head(FUNCTIONS.plain, "text")}
DECLARE
  ${PATIENCE.declared} ${bytes}
  fresh text; is_checked boolean;
BEGIN
  ${checks}
  ${PATIENCE.begin}
  ${bind(texts.plain(null))} INTO fresh, is_checked;
  ${PATIENCE.end}
  RETURN fresh;
END $function$;
${head(FUNCTIONS.keyed, "TABLE (job text, came text, holder text)")}
DECLARE
  ${PATIENCE.declared} ${bytes}
  each record;
BEGIN
  ${checks}
  ${PATIENCE.begin}
  FOR each IN ${bind(texts.keyed(null))} LOOP
    IF each.lost THEN
      RAISE EXCEPTION '% was enqueued this moment, with another key', each.id USING ERRCODE = '${FINISHED_MEANWHILE}';
    END IF;
    job := each.id;
    came := CASE WHEN each.inserted THEN 'new' WHEN each.known THEN 'known' END;
    holder := NULL;
    IF came IS NULL THEN
      SELECT k.job::text FROM ${s}.keys k WHERE k.key = (${KEYS})[pg_catalog.array_position($1, each.id::uuid)] INTO holder;
      -- The very job, inserted by somebody else this moment; or one that is gone, while its key is held for good.
      IF holder = job AND (EXISTS (SELECT FROM ${s}.live l WHERE l.id = each.id::uuid)
        OR EXISTS (SELECT FROM ${s}.archive a WHERE a.id = each.id::uuid)) THEN
        came := 'known';
      END IF;
    END IF;
    RETURN NEXT;
  END LOOP;
  ${PATIENCE.end}
END $function$;
${head(FUNCTIONS.replace, "text")}
DECLARE
  ${PATIENCE.declared} ${bytes}
  the_state text; the_queue text; the_type text; still_holds boolean; done integer;
BEGIN
  ${checks}
  ${PATIENCE.begin}
  SELECT l.state, l.queue, l.type FROM ${s}.live l WHERE l.id = ${HOLDER} FOR UPDATE INTO the_state, the_queue, the_type;
  -- Before the holder was locked, it may have lost the key to another job. That one's it stays.
  IF the_state IN ${WAITING} THEN
    PERFORM FROM ${s}.keys k WHERE k.key = (${KEYS})[1] AND k.job = ${HOLDER} FOR UPDATE;
  ELSE
    PERFORM FROM ${s}.keys k WHERE k.key = (${KEYS})[1] AND k.job = ${HOLDER};
  END IF;
  still_holds := FOUND;
  ${PATIENCE.end}
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
