import { LIMITS } from "../../defaults.js";
import { instantMs } from "../../duration.js";
import { InvalidOptionError } from "../../errors.js";
import type { JobType } from "../../job/job.js";
import {
  optionKeys,
  readCount,
  readName,
  readPriority,
  readQueue,
  refuseUndefined,
  refuseUnknown,
  show,
} from "../../options.js";
import { readId } from "../../job/uuid.js";
import { FINGERPRINT_PATTERN } from "../../job/fingerprint.js";
import type { UniqueOptions } from "../../job/enqueue-types.js";
import { readKey } from "../enqueue/unique.js";
import { inputMatcher, type InputMatcher } from "./input-condition.js";
import { isState, STATE_NAMES, type State } from "../../job/state.js";
import type { JobFilter, PageRequest } from "../../store.js";

/** Selects jobs. All given conditions must match; an array matches any of its values. */
export interface Filter {
  /** Only these jobs, at most 1000. */
  id?: string | readonly string[];
  state?: State | readonly State[];
  type?: string | JobType | readonly (string | JobType)[];
  queue?: string | readonly string[];
  user?: string;
  tag?: string;
  /** Jobs of this schedule. */
  schedule?: string;
  /** Jobs that the handler of this job enqueued. */
  parent?: string;
  priority?: number;
  /** Jobs whose current error is in this group of `hf.errorGroups()`. */
  fingerprint?: string;
  /** The job that holds this unique key now. With `user`, the key is that user's. For a calendar key, pass its scope too. */
  key?: string | { key: string; scope: NonNullable<UniqueOptions["scope"]> };
  /**
   * Jobs whose input matches: a string anywhere in it, or the value at a path (`{ path: "order.id", equals: "o-17" }`). No index
   * is used: each call examines a limited number of jobs, and `cursor` continues.
   */
  input?: InputCondition;
  /** Jobs whose current error has this text in its message or code. Case is ignored. Without an index, like `input`. */
  error?: string;
  createdAfter?: Date | number | string;
  createdBefore?: Date | number | string;
}

/** A condition on the input of jobs: exactly one of `equals` and `text`. */
export type InputCondition = {
  /**
   * Names and array positions, joined by dots: `items.0.sku`. As an array if a name contains dots: `["a.b", 0]`. Without it, the
   * whole input.
   */
  path?: string | readonly (string | number)[];
} & (
  | {
      /** The value there, compared as JSON. */
      equals: unknown;
      text?: undefined;
    }
  | {
      /** A part of the value there, or of any key or value below it. Case is ignored. */
      text: string;
      equals?: undefined;
    }
);

export interface ListOptions extends Filter {
  /** Jobs per page, 1 to 1000. Default 50. */
  limit?: number;
  /** The `cursor` of the previous page. */
  cursor?: string | null;
  /** False: inputs and outputs are not read and are `null`. Default true. */
  payloads?: boolean;
  /** By time of enqueue. Default `newest` (first). A cursor belongs to one order. */
  order?: "newest" | "oldest";
}

const FILTER_KEYS: ReadonlySet<string> = optionKeys<Filter>({
  id: true,
  state: true,
  type: true,
  queue: true,
  user: true,
  tag: true,
  schedule: true,
  parent: true,
  priority: true,
  fingerprint: true,
  key: true,
  input: true,
  error: true,
  createdAfter: true,
  createdBefore: true,
});
const LIST_KEYS: ReadonlySet<string> = new Set([
  ...FILTER_KEYS,
  ...optionKeys<Omit<ListOptions, keyof Filter>>({ limit: true, cursor: true, payloads: true, order: true }),
]);

/** A validated filter. The store does not know the conditions `key`, `input` and `error`: the client resolves them. */
export interface ReadFilter {
  stored: JobFilter;
  key: string | null;
  input: InputMatcher | null;
  /** In lower case. */
  error: string | null;
}

/** The filter of a change. `example`: a state that makes sense for it. */
export function readFilter(filter: Filter, now: number, example: State = "dead"): ReadFilter {
  refuseUnknown(filter, FILTER_KEYS, "a filter");
  if (Object.keys(filter).length === 0) {
    throw new InvalidOptionError("filter", `must contain at least one condition, e.g. { state: "${example}" }`);
  }
  return readConditions(filter, now);
}

/** The filter of a list: it may be empty. */
export function readListFilter(filter: Filter, now: number): ReadFilter {
  refuseUnknown(filter, FILTER_KEYS, "a filter");
  return readConditions(filter, now);
}

export function readListOptions(options: ListOptions, now: number): { filter: ReadFilter; page: PageRequest } {
  refuseUnknown(options, LIST_KEYS, "list");
  const { limit = 50, cursor = null, payloads = true, order = "newest" } = options;
  if (cursor !== null && (typeof cursor !== "string" || !/^[\w-]{1,400}$/.test(cursor))) {
    throw new InvalidOptionError("cursor", "is not a cursor of an earlier page; start again without one");
  }
  if (typeof payloads !== "boolean")
    throw new InvalidOptionError("payloads", `${show(payloads)} is neither true nor false`);
  if (order !== "newest" && order !== "oldest")
    throw new InvalidOptionError("order", `${show(order)} is neither "newest" nor "oldest"`);
  const page = { limit: readCount(limit, "limit", 1, LIMITS.listPage), cursor, payloads, order };
  return { filter: readConditions(options, now), page };
}

function readConditions(options: Filter, now: number): ReadFilter {
  const filter: Filter = Object.fromEntries(Object.entries(options).filter(([name]) => FILTER_KEYS.has(name)));
  // A value that is undefined by mistake must not match all jobs.
  refuseUndefined(filter, "give it a value, or leave the condition out");
  const read: JobFilter = {};
  if (filter.id !== undefined) {
    const ids = toArray(filter.id);
    if (ids.length > LIMITS.listIds)
      throw new InvalidOptionError("id", `has ${ids.length} ids; the limit is ${LIMITS.listIds}`);
    read.ids = ids.map((id) => readId(id));
  }
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
  if (filter.parent !== undefined) read.parent = readId(filter.parent, "parent");
  if (filter.priority !== undefined) read.priority = readPriority(filter.priority);
  if (filter.fingerprint !== undefined) read.fingerprint = readFingerprint(filter.fingerprint);
  if (filter.createdAfter !== undefined) read.createdAfter = instantMs(filter.createdAfter, "createdAfter");
  if (filter.createdBefore !== undefined) read.createdBefore = instantMs(filter.createdBefore, "createdBefore");
  return {
    stored: read,
    key: filter.key === undefined ? null : readKey(filter.key, filter.user, now),
    input: filter.input === undefined ? null : inputMatcher(filter.input),
    error: filter.error === undefined ? null : readName(filter.error, "error", MAX_ERROR_TEXT).toLowerCase(),
  };
}

const MAX_ERROR_TEXT = 1_000;

function toArray<Item>(value: Item | readonly Item[]): readonly Item[] {
  return Array.isArray(value) ? (value as readonly Item[]) : [value as Item];
}

function readFingerprint(value: unknown): string {
  if (typeof value === "string" && FINGERPRINT_PATTERN.test(value)) return value;
  throw new InvalidOptionError("fingerprint", `${show(value)} is not a fingerprint of hf.errorGroups()`);
}

export function readState(value: unknown): State {
  if (!isState(value)) throw new InvalidOptionError("state", `${show(value)} is none of ${STATE_NAMES.join(", ")}`);
  return value;
}
