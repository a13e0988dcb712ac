import { InvalidOptionError, job, type Holdfast, type JobType } from "holdfast";
import {
  database,
  optionKeys,
  readName,
  refuseUnknown,
  refuseUnknownIn,
  show,
  systemClock,
  type Clock,
  type Database,
  type PostgresPool,
  type SqliteDatabase,
} from "holdfast/pack";
import { z } from "zod";
import { deleteRows } from "./delete-rows.js";
import { readPresets, type CleanUp, type Presets } from "./presets.js";
import { createPruner, type Pruner, type PrunerOptions } from "./pruner.js";
import { readDeletion, refuseMissing, type CheckedDeletion, type Deletion } from "./rules.js";

/** A clean-up job of your own. */
export interface Rule extends Deletion {
  /** The name of the job type. */
  type: string;
  /** When it runs, as a cron expression in UTC. Omitted: only when you enqueue it. */
  schedule?: string;
}

export interface HousekeepingOptions {
  /** The database with the rows: a better-sqlite3 database, or a pool of `pg`. The jobs may be in another one. */
  db: SqliteDatabase | PostgresPool;
  /** The PostgreSQL schema of the tables. Default `"public"`. */
  schema?: string;
  presets?: Presets;
  rules?: readonly Rule[];
  /** Before the default names of the presets' tables, e.g. `"app_"`. */
  tablePrefix?: string;
  /** Before the names of the presets' job types and schedules, and of those of your rules. */
  prefix?: string;
  /** For tests. PostgreSQL uses its own clock. */
  clock?: Clock;
}

/** What a clean-up job returns: rows deleted, by table. */
export interface CleanUpOutput {
  deleted: Record<string, number>;
}

/** What `housekeeping()` returns. */
export interface Housekeeping {
  /** Pass them to `holdfast({ jobs })`. */
  readonly jobs: readonly JobType[];
  /** Creates the schedules that do not exist yet. What an operator changed stays. */
  install(hf: Pick<Holdfast, "schedule">): Promise<void>;
  /** The timer of applications without a queue: deletes old webhook deliveries, but only while the queue is disabled. */
  legacyPruner(options: PrunerOptions): Pruner;
}

const OPTION_KEYS = optionKeys<HousekeepingOptions>({
  db: true,
  schema: true,
  presets: true,
  rules: true,
  tablePrefix: true,
  prefix: true,
  clock: true,
});
const RULE_KEYS = optionKeys<Rule>({ type: true, table: true, where: true, times: true, schedule: true });

const MAX_NAME = 200;

const retention = z.strictObject({ retention_hours: z.int().min(1).max(87_600).optional() }).optional();

/**
 * Jobs that delete expired rows of your tables, in chunks.
 *
 * ```ts
 * const cleanUp = housekeeping({ db: pool, presets: { sessions: { table: "user_sessions", expiresAt: "valid_until" } } });
 * const hf = await holdfast({ store, jobs: cleanUp.jobs });
 * await cleanUp.install(hf);
 * ```
 */
export function housekeeping(options: HousekeepingOptions): Housekeeping {
  refuseUnknown(options, OPTION_KEYS, "housekeeping");
  const { db: given, schema, presets = {}, rules = [], tablePrefix = "", prefix = "", clock = systemClock } = options;
  if (typeof tablePrefix !== "string") throw new InvalidOptionError("tablePrefix", "must be a string");
  if (prefix !== "") readName(prefix, "prefix", MAX_NAME);
  if (!Array.isArray(rules)) throw new InvalidOptionError("rules", `${show(rules)} is not a list of rules`);
  const db = database(given, schema === undefined ? {} : { schema });
  const cleanUps = [...readPresets(presets, tablePrefix), ...rules.map(readRule)].map((each) => ({
    ...each,
    type: prefix + each.type,
    schedule: each.schedule === null ? null : { ...each.schedule, name: prefix + each.schedule.name },
    deletions: each.deletions.map(({ field, deletion }) => readDeletion(deletion, field, db.dialect)),
  }));
  if (cleanUps.length === 0) throw new InvalidOptionError("housekeeping", "needs at least one preset or rule");
  const jobs = new Map<string, JobType>();
  for (const cleanUp of cleanUps) {
    if (jobs.has(cleanUp.type)) throw new InvalidOptionError("rules", `define the job type ${cleanUp.type} twice`);
    jobs.set(cleanUp.type, cleanUpJob(db, clock, cleanUp));
  }
  const schedules = cleanUps.flatMap(({ schedule }) => (schedule === null ? [] : [schedule.name]));
  const twice = schedules.find((name, at) => schedules.indexOf(name) !== at);
  if (twice !== undefined)
    throw new InvalidOptionError("rules", `define the schedule ${twice} twice; rename the job type`);
  return Object.freeze({
    jobs: [...jobs.values()],
    async install(hf: Pick<Holdfast, "schedule">) {
      for (const { type, schedule } of cleanUps) {
        if (schedule === null) continue;
        const { name, ...timing } = schedule;
        await hf.schedule(name, { job: jobs.get(type)!, ...timing, maxAttempts: 3, overlap: "skip" });
      }
    },
    legacyPruner(prunerOptions: PrunerOptions) {
      const deliveries = cleanUps.find(({ retentionHours }) => retentionHours !== null);
      if (deliveries === undefined) {
        throw new InvalidOptionError("presets.webhookDeliveries", "is needed by the legacy pruner; add it");
      }
      return createPruner((signal) => runCleanUp(db, clock, deliveries, { signal }), prunerOptions, clock);
    },
  });
}

function readRule(rule: Rule, at: number): CleanUp {
  const field = `rules.${at}`;
  refuseUnknownIn(rule, RULE_KEYS, field);
  refuseMissing(rule, field);
  const { type, schedule, ...deletion } = rule;
  return {
    type: readName(type, `${field}.type`, MAX_NAME),
    schedule: schedule === undefined ? null : { name: type, cron: schedule, timezone: "UTC" },
    deletions: [{ field, deletion }],
    retentionHours: null,
  };
}

type ReadCleanUp = Omit<CleanUp, "deletions"> & { deletions: readonly CheckedDeletion[] };

function cleanUpJob(db: Database, clock: Clock, cleanUp: ReadCleanUp): JobType {
  const { type } = cleanUp;
  const retry = { maxAttempts: 3 };
  if (cleanUp.retentionHours === null) {
    return job({
      type,
      retry,
      run: ({ signal, progress, log }) => runCleanUp(db, clock, cleanUp, { signal, progress, log }),
    });
  }
  return job({
    type,
    input: retention,
    retry,
    run: ({ input, signal, progress, log }) =>
      runCleanUp(db, clock, cleanUp, { signal, progress, log, hours: input?.retention_hours }),
  });
}

interface RunOptions {
  signal: AbortSignal;
  progress?: (fraction: number, note: object) => void;
  log?: (line: string) => void;
  hours?: number | undefined;
}

async function runCleanUp(
  db: Database,
  clock: Clock,
  { deletions, retentionHours }: ReadCleanUp,
  { signal, progress, log = () => {}, hours = retentionHours ?? undefined }: RunOptions,
): Promise<CleanUpOutput> {
  const deleted = new Map<string, number>();
  for (const [at, deletion] of deletions.entries()) {
    const before = deleted.get(deletion.table) ?? 0;
    const onProgress = (rows: number): void => {
      deleted.set(deletion.table, before + rows);
      progress?.(at / deletions.length, Object.fromEntries(deleted));
    };
    await deleteRows(db, deletion, {
      ...(hours !== undefined && { olderThanMs: hours * 3_600_000 }),
      signal,
      now: () => clock.now(),
      onProgress,
      onAdvice: log,
    });
  }
  return { deleted: Object.fromEntries(deleted) };
}
