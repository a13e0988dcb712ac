import { LIMITS } from "../../defaults.js";
import { dateOf } from "../../duration.js";
import { InvalidOptionError } from "../../errors.js";
import { optionKeys, readCount, readName, refuseUnknown, show } from "../../options.js";
import type { ErrorGroupRecord } from "../../store.js";
import type { EngineContext } from "../context.js";
import { errorTrends, noFailures } from "../history/read-history.js";

/** What `hf.errorGroups` takes. */
export interface ErrorGroupOptions {
  /** Only groups of this job type. */
  type?: string;
  /** Default 100, at most 1,000. */
  limit?: number;
  /** Adds the trend of each group, which is read from the history. Default: `false`. */
  trend?: boolean;
}

/** Failed attempts with the same error: same job type, class, code, function and message, apart from its variable parts. */
export interface ErrorGroup extends Omit<ErrorGroupRecord, "firstAt" | "lastAt"> {
  firstAt: Date;
  lastAt: Date;
  /**
   * With `trend: true`, else null: the failed attempts in each of the last 24 hours, the oldest first. The last number is that of the current hour.
   * Each process adds its counts within about a minute; of one hour, the 200 groups with the most are counted.
   */
  trend: number[] | null;
}

const GROUP_KEYS: ReadonlySet<string> = optionKeys<ErrorGroupOptions>({ type: true, limit: true, trend: true });

/** The latest groups, from one read of the store; trends take a few more. */
export async function listErrorGroups(engine: EngineContext, options: ErrorGroupOptions): Promise<ErrorGroup[]> {
  const { store, errorGroups } = engine;
  refuseUnknown(options, GROUP_KEYS, "errorGroups");
  const limit = readCount(options.limit ?? 100, "limit", 1, LIMITS.errorGroups);
  const type = options.type === undefined ? null : readName(options.type, "type", LIMITS.typeLength);
  const { trend: hasTrend = false } = options;
  if (typeof hasTrend !== "boolean") throw new InvalidOptionError("trend", `${show(hasTrend)} must be true or false`);
  await errorGroups.flush();
  const trends = hasTrend ? await errorTrends(engine) : null;
  const groups = await store.errorGroups(type === null ? limit : LIMITS.errorGroups);
  return groups
    .filter((group) => type === null || group.type === type)
    .slice(0, limit)
    .map((group) => ({
      ...group,
      firstAt: dateOf(group.firstAt),
      lastAt: dateOf(group.lastAt),
      trend: trends === null ? null : (trends.get(group.fingerprint) ?? noFailures()),
    }));
}
