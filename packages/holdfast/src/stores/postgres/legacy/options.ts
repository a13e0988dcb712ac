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
 * Which column of the old table holds what. Only `id` and `status` must be there. Columns are names, never SQL.
 *
 * Times may be timestamps, dates, text that PostgreSQL reads as a time, or numbers (seconds or milliseconds since 1970,
 * told apart by their size); those without a zone are taken for UTC.
 */
export interface LegacyMap {
  /**
   * A UUID is kept. Any other id becomes a UUID made of the table's name and itself, always the same, and the job gets
   * the tag `legacy:<old id>` to find it by.
   */
  id: string;
  status: string;
  user?: string;
  /**
   * A column with JSON that is the whole input; or the columns that make it up, as a list or by the name each has in
   * the input. Default: `{}`.
   */
  input?: string | readonly string[] | Readonly<Record<string, string>>;
  /** A column with a JSON object whose fields become fields of the input, over those that `input` gives. NULL adds nothing. */
  inputMerge?: string;
  /** As `input`; kept with completed jobs. */
  output?: string | readonly string[] | Readonly<Record<string, string>>;
  error?: string;
  queue?: string;
  priority?: string;
  /** Attempts made so far. Or `retries`, which does not count the first. */
  attempt?: string;
  retries?: string;
  /** Attempts in all. Or `maxRetries`, which does not count the first. */
  maxAttempts?: string;
  maxRetries?: string;
  /** When a waiting job may run. Default: when it was made. */
  runAt?: string;
  expiresAt?: string;
  createdAt?: string;
  updatedAt?: string;
  claimedAt?: string;
  startedAt?: string;
  finishedAt?: string;
}

/** What `importLegacy` takes. */
export interface LegacyImportOptions {
  /** The old table, as `"table"` or `"schema.table"`, spelt as PostgreSQL has it. */
  table: string;
  /** The type that its rows become jobs of. */
  type: string;
  map: LegacyMap;
  /**
   * What the old table's words for a job's state mean, over the usual ones. `failed` is taken for given up (`"dead"`);
   * say `{ failed: "failed" }` where it means that the job waits for its retry.
   */
  statuses?: Readonly<Record<string, State>>;
  /** For rows that no column tells otherwise. Default `"default"`. */
  queue?: string;
  /** For rows that no column tells otherwise. Default 0. */
  priority?: number;
  /** For rows that no column tells otherwise. Default 4, or more for a live job that has used as many. */
  maxAttempts?: number;
  /** Words to find the imported jobs by. */
  tags?: readonly string[];
  /** Tables to drop in the same transaction: `true` for the old table alone, or exactly those of a list. */
  drop?: boolean | readonly string[];
  /** Does everything, locks included, and then takes all of it back: the answer tells what would become of it. */
  dryRun?: boolean;
  /** Called now and then, and waited for. What it throws or rejects with ends the import and undoes it. */
  onProgress?: (progress: LegacyProgress) => unknown;
}

/** How far an import has come, in rows of the old table. */
export interface LegacyProgress {
  done: number;
  total: number;
}

/** What became of an old table. */
export interface LegacyImport {
  /** Rows that became jobs. */
  imported: number;
  /** Rows whose job was there already. */
  skipped: number;
  /** The imported jobs by their state. */
  byState: Record<State, number>;
  /** Tables dropped, as `schema.table`. */
  dropped: string[];
  /** Up to five of the imported jobs, of as many states as there are. */
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

/** What queues in use call the states. `failed` and `error` without more are the end of a job, not a wait for its retry. */
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
  if (typeof dryRun !== "boolean") throw new InvalidOptionError("dryRun", `${show(dryRun)} is neither true nor false`);
  if (typeof onProgress !== "function")
    throw new InvalidOptionError("onProgress", `${show(onProgress)} is not a function`);
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
      throw new InvalidOptionError(`map.${other}`, `says the same as map.${one}; give one of them`);
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
        `${show(state)} is no state; use one of ${STATE_NAMES.join(", ")}`,
      );
    }
    words.set(word.trim().toLowerCase(), state);
  }
  return words;
}

function readDrop(drop: false | readonly string[]): TableName[] {
  if (drop === false) return [];
  if (!Array.isArray(drop)) throw new InvalidOptionError("drop", `${show(drop)} is neither true nor a list of tables`);
  return drop.map((each, at) => readTableName(each, `drop.${at}`));
}
