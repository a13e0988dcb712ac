import { LIMITS } from "../../defaults.js";
import { instantMs } from "../../duration.js";
import { InvalidOptionError } from "../../errors.js";
import type { JobType } from "../../job/job.js";
import { optionKeys, readCount, readName, readQueue, refuseUnknown, show } from "../../options.js";
import { isState, STATE_NAMES, type State } from "../../job/state.js";
import type { JobFilter, PageRequest } from "../../store.js";

/** Which jobs: all given conditions must match; an array matches any of its values. */
export interface Filter {
  state?: State | readonly State[];
  type?: string | JobType | readonly (string | JobType)[];
  queue?: string | readonly string[];
  user?: string;
  tag?: string;
  /** Jobs of this schedule. */
  schedule?: string;
  createdAfter?: Date | number | string;
  createdBefore?: Date | number | string;
}

export interface ListOptions extends Filter {
  /** Jobs per page, 1 to 1000. Default 50. */
  limit?: number;
  /** The `cursor` of the previous page. */
  cursor?: string | null;
  /** False: inputs and outputs are not read and are `null`. Default true. */
  payloads?: boolean;
}

const FILTER_KEYS: ReadonlySet<string> = optionKeys<Filter>({
  state: true,
  type: true,
  queue: true,
  user: true,
  tag: true,
  schedule: true,
  createdAfter: true,
  createdBefore: true,
});
const LIST_KEYS: ReadonlySet<string> = new Set([
  ...FILTER_KEYS,
  ...optionKeys<Omit<ListOptions, keyof Filter>>({ limit: true, cursor: true, payloads: true }),
]);

export function readFilter(filter: Filter): JobFilter {
  refuseUnknown(filter, FILTER_KEYS, "a filter");
  if (Object.keys(filter).length === 0) {
    throw new InvalidOptionError("filter", 'must contain at least one condition, e.g. { state: "dead" }');
  }
  // The filter selects jobs to cancel or delete: a value that is undefined by mistake must not match all jobs.
  for (const [field, value] of Object.entries(filter)) {
    if (value === undefined)
      throw new InvalidOptionError(field, "is undefined; give it a value, or leave the condition out");
  }
  return readConditions(filter);
}

export function readListOptions(options: ListOptions): { filter: JobFilter; page: PageRequest } {
  refuseUnknown(options, LIST_KEYS, "list");
  const { limit = 50, cursor = null, payloads = true } = options;
  if (cursor !== null && (typeof cursor !== "string" || !/^[\w-]{1,400}$/.test(cursor))) {
    throw new InvalidOptionError("cursor", "is not a cursor that list() returned");
  }
  if (typeof payloads !== "boolean")
    throw new InvalidOptionError("payloads", `${show(payloads)} is neither true nor false`);
  const page = { limit: readCount(limit, "limit", 1, LIMITS.listPage), cursor, payloads };
  return { filter: readConditions(options), page };
}

function readConditions(filter: Filter): JobFilter {
  const read: JobFilter = {};
  if (filter.state !== undefined) read.states = toArray(filter.state).map(readState);
  if (filter.type !== undefined) {
    const types = Array.isArray(filter.type)
      ? (filter.type as readonly (string | JobType)[])
      : [filter.type as string | JobType];
    read.types = types.map((type) => readName(typeof type === "object" ? type?.type : type, "type", LIMITS.typeLength));
  }
  if (filter.queue !== undefined) read.queues = toArray(filter.queue).map((queue) => readQueue(queue));
  if (filter.user !== undefined) read.user = readName(filter.user, "user", LIMITS.userLength);
  if (filter.tag !== undefined) read.tag = readName(filter.tag, "tag", LIMITS.tagLength);
  if (filter.schedule !== undefined) read.schedule = readName(filter.schedule, "schedule", LIMITS.scheduleLength);
  if (filter.createdAfter !== undefined) read.createdAfter = instantMs(filter.createdAfter, "createdAfter");
  if (filter.createdBefore !== undefined) read.createdBefore = instantMs(filter.createdBefore, "createdBefore");
  return read;
}

function toArray<Item>(value: Item | readonly Item[]): readonly Item[] {
  return Array.isArray(value) ? (value as readonly Item[]) : [value as Item];
}

function readState(value: unknown): State {
  if (!isState(value)) throw new InvalidOptionError("state", `${show(value)} is none of ${STATE_NAMES.join(", ")}`);
  return value;
}
