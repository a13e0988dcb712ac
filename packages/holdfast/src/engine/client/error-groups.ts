import { LIMITS } from "../../defaults.js";
import { dateOf } from "../../duration.js";
import { optionKeys, readCount, readName, refuseUnknown } from "../../options.js";
import type { ErrorGroupRecord } from "../../store.js";
import type { EngineContext } from "../context.js";

/** What `hf.errorGroups` takes. */
export interface ErrorGroupOptions {
  /** Only groups of this job type. */
  type?: string;
  /** Default 100, at most 1,000. */
  limit?: number;
}

/** Failed attempts with the same error: same job type, class, code, function and message, apart from its variable parts. */
export interface ErrorGroup extends Omit<ErrorGroupRecord, "firstAt" | "lastAt"> {
  firstAt: Date;
  lastAt: Date;
}

const GROUP_KEYS: ReadonlySet<string> = optionKeys<ErrorGroupOptions>({ type: true, limit: true });

/** The latest groups, from one read of the store. */
export async function listErrorGroups(
  { store, errorGroups }: EngineContext,
  options: ErrorGroupOptions,
): Promise<ErrorGroup[]> {
  refuseUnknown(options, GROUP_KEYS, "errorGroups");
  const limit = readCount(options.limit ?? 100, "limit", 1, LIMITS.errorGroups);
  const type = options.type === undefined ? null : readName(options.type, "type", LIMITS.typeLength);
  await errorGroups.flush();
  const groups = await store.errorGroups(type === null ? limit : LIMITS.errorGroups);
  return groups
    .filter((group) => type === null || group.type === type)
    .slice(0, limit)
    .map((group) => ({ ...group, firstAt: dateOf(group.firstAt), lastAt: dateOf(group.lastAt) }));
}
