import { DEFAULTS, LIMITS } from "../../../defaults.js";
import { InvalidOptionError } from "../../../errors.js";
import {
  readCount,
  readName,
  readPriority,
  readQueue,
  readTags,
  optionKeys,
  refuseUnknown,
  refuseUnknownIn,
  show,
} from "../../../options.js";
import { isState, STATE_NAMES, type State } from "../../../job/state.js";
import type { StoredJob } from "../../../store.js";
import { readTableName, type TableName } from "./table.js";

/**
 * The column of the old table for each field. Only `id` and `status` are required. Columns are names, never SQL.
 *
 * Times may be timestamps, dates, strings that PostgreSQL can parse as a time, or numbers (seconds or milliseconds
 * since 1970, distinguished by their size). Times without a zone are UTC.
 */
export interface LegacyMap {
  /**
   * UUIDs stay the same. Any other id is mapped to a UUID, always the same one, computed from the table's name and the
   * id. The job then gets the tag `legacy:<old id>`.
   */
  id: string;
  status: string;
  user?: string;
  /**
   * A column with JSON that is the whole input; or the columns that it is built from, as an array or by their names in
   * the input. Default: `{}`.
   */
  input?: string | readonly string[] | Readonly<Record<string, string>>;
  /**
   * A column with a JSON object whose fields are merged into the input and override those of `input`. NULL adds nothing.
   */
  inputMerge?: string;
  /** Like `input`; stored with completed jobs only. */
  output?: string | readonly string[] | Readonly<Record<string, string>>;
  error?: string;
  queue?: string;
  priority?: string;
  /** Attempts so far. Or use `retries`, which does not count the first attempt. */
  attempt?: string;
  retries?: string;
  /** Maximum attempts. Or use `maxRetries`, which does not count the first attempt. */
  maxAttempts?: string;
  maxRetries?: string;
  /** When a waiting job may run. Default: its creation time. */
  runAt?: string;
  expiresAt?: string;
  createdAt?: string;
  updatedAt?: string;
  claimedAt?: string;
  startedAt?: string;
  finishedAt?: string;
}

/** Options of `importLegacy`. */
export interface LegacyImportOptions {
  /** The old table, as `"table"` or `"schema.table"`. Case-sensitive. */
  table: string;
  /** The type of the imported jobs. */
  type: string;
  map: LegacyMap;
  /**
   * States for the statuses of the old table, in addition to the common ones. By default `failed` means `"dead"`;
   * use `{ failed: "failed" }` if such rows wait for a retry.
   */
  statuses?: Readonly<Record<string, State>>;
  /** For rows without a value in the mapped column. Default `"default"`. */
  queue?: string;
  /** For rows without a value in the mapped column. Default 0. */
  priority?: number;
  /** For rows without a value in the mapped column. Default 4, or more for a live job that has already used them. */
  maxAttempts?: number;
  /** Tags of the imported jobs. */
  tags?: readonly string[];
  /** Tables to drop in the same transaction: `true` for the old table, or an array of tables. */
  drop?: boolean | readonly string[];
  /** Does the whole import, including the locks, and rolls it back. The result shows what the import would do. */
  dryRun?: boolean;
  /** Called repeatedly, and awaited. If it throws or rejects, the import is rolled back. */
  onProgress?: (progress: LegacyProgress) => unknown;
}

/** The progress of an import, in rows of the old table. */
export interface LegacyProgress {
  done: number;
  total: number;
}

/** The result of an import. */
export interface LegacyImport {
  /** Rows that became jobs. */
  imported: number;
  /** Rows whose job already existed. */
  skipped: number;
  /** The imported jobs by state. */
  byState: Record<State, number>;
  /** The dropped tables, as `schema.table`. */
  dropped: string[];
  /** Up to five of the imported jobs, of as many states as possible. */
  samples: StoredJob[];
  /** Nothing was changed. */
  dryRun: boolean;
}

export type Field = keyof LegacyMap;

/** The options, checked. */
export interface ImportPlan {
  table: TableName;
  type: string;
  map: LegacyMap;
  words: ReadonlyMap<string, State>;
  queue: string;
  priority: number;
  maxAttempts: number;
  tags: readonly string[];
  drop: readonly TableName[];
  dryRun: boolean;
  onProgress: (progress: LegacyProgress) => unknown;
}

/**
 * What queues in use call the states. `failed` and `error` without more are the end of a job, not a wait for its retry.
 */
const WORDS: Readonly<Record<State, readonly string[]>> = {
  pending: ["pending", "queued", "waiting", "scheduled", "delayed", "new", "ready"],
  claimed: ["claimed", "reserved", "locked"],
  running: ["running", "processing", "in_progress", "in-progress", "active", "started"],
  failed: ["retry", "retrying"],
  completed: ["completed", "complete", "done", "succeeded", "success", "finished"],
  dead: ["dead", "dead_letter", "dead-letter", "failed", "error", "expired"],
  cancelled: ["cancelled", "canceled"],
};

const OPTIONS: ReadonlySet<string> = optionKeys<LegacyImportOptions>({
  table: true,
  type: true,
  map: true,
  statuses: true,
  queue: true,
  priority: true,
  maxAttempts: true,
  tags: true,
  drop: true,
  dryRun: true,
  onProgress: true,
});
const FIELDS: ReadonlySet<string> = optionKeys<LegacyMap>({
  id: true,
  status: true,
  user: true,
  input: true,
  inputMerge: true,
  output: true,
  error: true,
  queue: true,
  priority: true,
  attempt: true,
  retries: true,
  maxAttempts: true,
  maxRetries: true,
  runAt: true,
  expiresAt: true,
  createdAt: true,
  updatedAt: true,
  claimedAt: true,
  startedAt: true,
  finishedAt: true,
});

export function readImportOptions(options: LegacyImportOptions): ImportPlan {
  refuseUnknown(options, OPTIONS, "importLegacy");
  const { table, type, map, drop = false, dryRun = false, onProgress = () => {} } = options;
  readMap(map);
  if (typeof dryRun !== "boolean") throw new InvalidOptionError("dryRun", `${show(dryRun)} must be true or false`);
  if (typeof onProgress !== "function")
    throw new InvalidOptionError("onProgress", `${show(onProgress)} must be a function`);
  const name = readTableName(table, "table");
  return {
    table: name,
    type: readName(type, "type", LIMITS.typeLength),
    map,
    words: readWords(options.statuses ?? {}),
    queue: readQueue(options.queue ?? DEFAULTS.queue),
    priority: readPriority(options.priority ?? DEFAULTS.priority),
    maxAttempts: readCount(options.maxAttempts ?? DEFAULTS.maxAttempts, "maxAttempts", 1, LIMITS.maxAttempts),
    tags: readTags(options.tags ?? []),
    drop: drop === true ? [name] : readDrop(drop),
    dryRun,
    onProgress,
  };
}

function readMap(map: LegacyMap): void {
  refuseUnknownIn(map, FIELDS, "map");
  for (const field of ["id", "status"] as const) {
    if (map[field] === undefined)
      throw new InvalidOptionError(`map.${field}`, "is missing; name the column that holds it");
  }
  for (const [one, other] of [
    ["attempt", "retries"],
    ["maxAttempts", "maxRetries"],
  ] as const) {
    if (map[one] !== undefined && map[other] !== undefined) {
      throw new InvalidOptionError(`map.${other}`, `cannot be combined with map.${one}`);
    }
  }
}

function readWords(given: Readonly<Record<string, State>>): ReadonlyMap<string, State> {
  const words = new Map<string, State>();
  for (const state of STATE_NAMES) for (const word of WORDS[state]) words.set(word, state);
  for (const [word, state] of Object.entries(given)) {
    if (!isState(state)) {
      throw new InvalidOptionError(
        `statuses.${word}`,
        `${show(state)} is not a state; use one of ${STATE_NAMES.join(", ")}`,
      );
    }
    words.set(word.trim().toLowerCase(), state);
  }
  return words;
}

function readDrop(drop: false | readonly string[]): TableName[] {
  if (drop === false) return [];
  if (!Array.isArray(drop))
    throw new InvalidOptionError("drop", `${show(drop)} must be true, false or an array of tables`);
  return drop.map((each, at) => readTableName(each, `drop.${at}`));
}
