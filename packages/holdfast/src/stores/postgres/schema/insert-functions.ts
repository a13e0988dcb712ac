import { LIMITS } from "../../../defaults.js";
import { TIES } from "../../../job/stored-step.js";
import type { NewJob } from "../../../store.js";
import type { Row, Statement } from "../connection/db.js";
import type { InsertMethod, KeyedResult } from "../jobs/insert-direct.js";
import { columnsOf, FINISHED_MEANWHILE, insertTexts, widthOf, type Width } from "../jobs/insert-sql.js";
import { tagEntries } from "../jobs/tag-entries.js";
import { WAITING, type Sql } from "../connection/sql.js";
import type { SchemaSettings } from "./schema.js";

/**
 * The values of a batch, without the time. The functions use the server's time: with a later one a caller could take held keys.
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
/** Jobs that others wait for are inserted by workers, which have privileges on the tables. */
type FunctionWidth = Exclude<Width, "tied">;
const INPUTS = placeholderOf("input");
const BYTES = placeholderOf("bytes");
const KEYS = placeholderOf("key");
/** `wide` adds parents and settings, for jobs that have them. Earlier versions call the functions only with `narrow` batches. */
const BATCHES: Readonly<Record<FunctionWidth, readonly string[]>> = {
  narrow: BATCH,
  wide: [...BATCH, "text[]", "text[]"],
};
const SETTINGS = `$${BATCH.length + 2}`;

interface InsertFunction {
  name: string;
  parameters: readonly string[];
}

// The parameters after the batch are the lock timeout in milliseconds and the job that holds the key. The columns that a function
// returns must keep their names and types: CREATE OR REPLACE FUNCTION cannot change them.
const functionsOf = (width: FunctionWidth): Record<"plain" | "keyed" | "replace", InsertFunction> => ({
  plain: { name: "add_jobs", parameters: [...BATCHES[width], "integer"] },
  keyed: { name: "add_keyed_jobs", parameters: [...BATCHES[width], "integer"] },
  replace: { name: "replace_job", parameters: [...BATCHES[width], "integer", "uuid"] },
});

/** The signatures of the functions. */
export function insertSignatures(
  { schema: s }: SchemaSettings,
  widths: readonly FunctionWidth[] = ["narrow", "wide"],
): string[] {
  return widths
    .flatMap((width) => Object.values(functionsOf(width)))
    .map(({ name, parameters }) => `${s}.${name}(${parameters.join(", ")})`);
}

/** Writes through functions that run with their owner's privileges, for clients with the role enqueue. */
export function functionInserts(sql: Sql): InsertMethod {
  const call = ({ name, parameters }: InsertFunction): string =>
    `${sql.s}.${name}(${parameters.map((type, at) => `$${at + 1}::${type}`).join(", ")})`;
  const statementsOf = (width: FunctionWidth): Record<"plain" | "keyed" | "replace", Statement> => {
    const functions = functionsOf(width);
    return {
      plain: sql.statement("add_jobs", `SELECT ${call(functions.plain)} AS fresh`),
      keyed: sql.statement("add_keyed_jobs", `SELECT job, came, holder FROM ${call(functions.keyed)}`),
      replace: sql.statement("replace_job", `SELECT ${call(functions.replace)} AS outcome`),
    };
  };
  const statements = { narrow: statementsOf("narrow"), wide: statementsOf("wide") };
  const widthFor = (jobs: readonly NewJob[]): FunctionWidth => (widthOf(jobs) === "narrow" ? "narrow" : "wide");
  const batch = (jobs: readonly NewJob[]): unknown[] => columnsOf(jobs, null, widthFor(jobs)).slice(1);
  return {
    async plain(runner, jobs, { waitMs }) {
      const { plain } = statements[widthFor(jobs)];
      const [[fresh]] = (await runner.run(plain, [...batch(jobs), runner.inside ? null : waitMs])) as [Row];
      return fresh as string | null;
    },
    async keyed(runner, jobs, { waitMs }) {
      const rows = await runner.run(statements[widthFor(jobs)].keyed, [...batch(jobs), waitMs]);
      const results = new Map(rows.map(([id, result, holder]) => [id, result ?? { holder: holder ?? undefined }]));
      return jobs.map(({ id }) => results.get(id) as KeyedResult);
    },
    async replace(runner, job, holder, { waitMs }) {
      const { replace } = statements[widthFor([job])];
      const [[outcome]] = (await runner.run(replace, [...batch([job]), waitMs, holder])) as [Row];
      return outcome as "freed" | "kept" | "replaced";
    },
  };
}

const FIXED = "LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp";
/** Sets the lock timeout unless a shorter one is set, and restores it at the end. */
const LOCK_TIMEOUT = {
  declared: "the_wait text := current_setting('lock_timeout');",
  begin: (wait: string): string => `IF the_wait::interval = '0' OR the_wait::interval > ${wait} * interval '1 ms' THEN
    PERFORM pg_catalog.set_config('lock_timeout', ${wait}::text, true);
  END IF;`,
  end: "PERFORM set_config('lock_timeout', the_wait, true);",
};

/** SQL that creates the functions. */
export function insertFunctions(sql: Sql): string {
  return sql.hasJobSettings
    ? `${insertFunctionsOf(sql, "narrow")}\n${insertFunctionsOf(sql, "wide")}`
    : insertFunctionsOf(sql, "narrow");
}

function insertFunctionsOf(sql: Sql, width: FunctionWidth): string {
  const { s } = sql;
  const functions = functionsOf(width);
  const texts = insertTexts(sql, width);
  const batch = BATCHES[width].map((_, at) => `$${at + 1}`);
  const wait = `$${batch.length + 1}`;
  const holder = `$${batch.length + 2}`;
  const head = ({ name, parameters }: InsertFunction, returns: string): string =>
    `CREATE OR REPLACE FUNCTION ${s}.${name}(${parameters.join(", ")}) RETURNS ${returns} ${FIXED} AS $function$
#variable_conflict use_column`;
  // Computed here and not by the caller: workers rely on it.
  const bytes = `the_bytes integer[] := ARRAY(SELECT pg_catalog.octet_length(pg_catalog.convert_to(i.input, 'UTF8'))
    FROM pg_catalog.unnest(${INPUTS}) WITH ORDINALITY AS i (input, ordinal) ORDER BY i.ordinal);`;
  const checks = `PERFORM ${s}.check_jobs(${BATCH.map((_, at) => `$${at + 1}`).join(", ")});
  ${width === "wide" ? `PERFORM ${s}.check_settings(${SETTINGS});` : ""}
  IF ${LIMITS.payloadBytes} < ANY (the_bytes) THEN
    RAISE EXCEPTION 'input exceeds ${LIMITS.payloadBytes} bytes of JSON' USING ERRCODE = '22023';
  END IF;`;
  /** A statement of the store with these parameters as its values; the first value is the time. */
  const bind = (text: string, more: readonly string[] = []): string => {
    const values = ["NULL", ...batch, ...more].map((value) => (value === BYTES ? "the_bytes" : value));
    return text.replaceAll(/\$(\d+)/g, (_, number: string) => values[Number(number) - 1] as string);
  };
  return `${head(functions.plain, "text")}
DECLARE
  ${LOCK_TIMEOUT.declared} ${bytes}
  fresh text; is_checked boolean;
BEGIN
  ${checks}
  ${LOCK_TIMEOUT.begin(wait)}
  ${bind(texts.plain(null))} INTO fresh, is_checked;
  ${LOCK_TIMEOUT.end}
  RETURN fresh;
END $function$;
${head(functions.keyed, "TABLE (job text, came text, holder text)")}
DECLARE
  ${LOCK_TIMEOUT.declared} ${bytes}
  each record;
BEGIN
  ${checks}
  ${LOCK_TIMEOUT.begin(wait)}
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
${head(functions.replace, "text")}
DECLARE
  ${LOCK_TIMEOUT.declared} ${bytes}
  the_state text; the_queue text; the_type text;${sql.hasSteps ? " has_steps boolean;" : ""} still_holds boolean; done integer;
BEGIN
  ${checks}
  ${LOCK_TIMEOUT.begin(wait)}
  SELECT l.state, l.queue, l.type${sql.hasSteps ? `, (l.ties & ${TIES.steps}) <> 0` : ""} FROM ${s}.live l WHERE l.id = ${holder} FOR UPDATE
    INTO the_state, the_queue, the_type${sql.hasSteps ? ", has_steps" : ""};
  -- The holder may have lost the key to another job before it was locked.
  IF the_state IN ${WAITING} THEN
    PERFORM FROM ${s}.keys k WHERE k.key = (${KEYS})[1] AND k.job = ${holder} FOR UPDATE;
  ELSE
    PERFORM FROM ${s}.keys k WHERE k.key = (${KEYS})[1] AND k.job = ${holder};
  END IF;
  still_holds := FOUND;
  ${LOCK_TIMEOUT.end}
  IF NOT still_holds THEN RETURN 'freed'; END IF;
  IF the_state IS NULL OR the_state NOT IN ${WAITING}${sql.hasSteps ? " OR has_steps" : ""} THEN RETURN 'kept'; END IF;
  DELETE FROM ${s}.tags g WHERE g.job = ${holder};
  ${bind(texts.rewrite, [holder, "the_queue", "the_type", "the_state"])} INTO done;
  INSERT INTO ${s}.tags (tag, seq, job) SELECT pg_catalog.unnest(${sql.hasJobSettings ? tagEntries("l") : "l.tags"}), l.seq, l.id FROM ${s}.live l WHERE l.id = ${holder};
  IF the_bytes[1] > ${LIMITS.inlineInputBytes} THEN
    INSERT INTO ${s}.inputs (job, input) VALUES (${holder}, (${INPUTS})[1]::json)
    ON CONFLICT (job) DO UPDATE SET input = excluded.input;
  ELSE
    DELETE FROM ${s}.inputs i WHERE i.job = ${holder};
  END IF;
  RETURN 'replaced';
END $function$;`;
}
