import { LIMITS } from "../../../defaults.js";
import type { JobConditions } from "../../../admin/contract/api-types.js";
import { CALENDAR_UNITS, type CalendarUnit } from "../../../schedule/calendar.js";
import { STATE_NAMES, type State } from "../../../job/state.js";
import { UsageError } from "../../errors.js";
import { readTime } from "../../parse/instant.js";

interface TextFlag {
  readonly kind: "text";
  readonly form?: "past";
  readonly placeholder?: string;
  readonly description: string;
}
interface TextsFlag extends TextFlag {
  readonly repeated: true;
}

type FilterFlags = {
  readonly state: {
    readonly kind: "choice";
    readonly choices: readonly State[];
    readonly repeated: true;
    readonly description: string;
  };
  readonly priority: {
    readonly kind: "count";
    readonly min: number;
    readonly max: number;
    readonly description: string;
  };
  readonly "key-scope": {
    readonly kind: "choice";
    readonly choices: readonly CalendarUnit[];
    readonly description: string;
  };
} & Readonly<Record<"type" | "queue", TextsFlag>> &
  Readonly<
    Record<
      | "user"
      | "tag"
      | "key"
      | "key-zone"
      | "schedule"
      | "parent"
      | "fingerprint"
      | "input-path"
      | "equals"
      | "input-text"
      | "error"
      | "after"
      | "before",
      TextFlag
    >
  >;

/** The flags that select jobs. */
export const FILTER: FilterFlags = {
  state: { kind: "choice", choices: STATE_NAMES, repeated: true, description: "Only jobs in this state." },
  type: { kind: "text", repeated: true, description: "Only jobs of this type." },
  queue: { kind: "text", repeated: true, description: "Only jobs in this queue." },
  priority: {
    kind: "count",
    min: -LIMITS.priority,
    max: LIMITS.priority,
    description: "Only jobs with this priority.",
  },
  user: { kind: "text", description: "Only jobs of this user." },
  tag: { kind: "text", description: "Only jobs with this tag." },
  key: { kind: "text", description: "Only the job that holds this unique key. Add --user for the key of a user." },
  "key-scope": {
    kind: "choice",
    choices: CALENDAR_UNITS,
    description: "The key of --key is per hour, day, …: look for the current one.",
  },
  "key-zone": { kind: "text", placeholder: "zone", description: "The time zone of --key-scope. Default: UTC." },
  schedule: { kind: "text", description: "Only jobs of this schedule." },
  parent: { kind: "text", placeholder: "id", description: "Only jobs that the handler of this job enqueued." },
  fingerprint: { kind: "text", description: "Only jobs of this group of errors: see holdfast errors." },
  "input-path": {
    kind: "text",
    placeholder: "path",
    description: `Where --equals or --input-text looks in the input, e.g. order.id or '["a.b",0]'. Default: the whole input.`,
  },
  equals: {
    kind: "text",
    placeholder: "value",
    description: `Only jobs with this value in their input: JSON, or a string, e.g. o-17, 17, '"17"'.`,
  },
  "input-text": {
    kind: "text",
    placeholder: "text",
    description: "Only jobs with this text in their input. Case is ignored.",
  },
  error: {
    kind: "text",
    placeholder: "text",
    description: "Only jobs with this text in the message or code of their error. Case is ignored.",
  },
  after: {
    kind: "text",
    form: "past",
    placeholder: "time",
    description: "Only jobs created after this time: an ISO time or an age, e.g. 2h.",
  },
  before: { kind: "text", form: "past", placeholder: "time", description: "Only jobs created before this time." },
};

/** For commands that take no ids as arguments. */
export const ID_FLAG: { readonly id: TextsFlag } = {
  id: { kind: "text", repeated: true, description: "Only the job with this id." },
};

/** The values of {@link FILTER}, and of {@link ID_FLAG} if the command has it. */
export interface GivenFilter {
  readonly id?: readonly string[];
  readonly state: readonly string[];
  readonly type: readonly string[];
  readonly queue: readonly string[];
  readonly priority: number | undefined;
  readonly user: string | undefined;
  readonly tag: string | undefined;
  readonly key: string | undefined;
  readonly "key-scope": string | undefined;
  readonly "key-zone": string | undefined;
  readonly schedule: string | undefined;
  readonly parent: string | undefined;
  readonly fingerprint: string | undefined;
  readonly "input-path": string | undefined;
  readonly equals: string | undefined;
  readonly "input-text": string | undefined;
  readonly error: string | undefined;
  readonly after: string | undefined;
  readonly before: string | undefined;
}

/** The filter of the given flags. */
export function conditionsOf(given: GivenFilter): JobConditions {
  const {
    id = [],
    state,
    type,
    queue,
    priority,
    user,
    tag,
    key,
    schedule,
    parent,
    fingerprint,
    error,
    after,
    before,
  } = given;
  const input = inputOf(given);
  return {
    ...(id.length > 0 && { id }),
    ...(state.length > 0 && { state: state as readonly State[] }),
    ...(type.length > 0 && { type }),
    ...(queue.length > 0 && { queue }),
    ...(priority !== undefined && { priority }),
    ...(user !== undefined && { user }),
    ...(tag !== undefined && { tag }),
    ...(key !== undefined && { key }),
    ...keyScopeOf(given),
    ...(schedule !== undefined && { schedule }),
    ...(parent !== undefined && { parent }),
    ...(fingerprint !== undefined && { fingerprint }),
    ...(input !== undefined && { input }),
    ...(error !== undefined && { error }),
    ...(after !== undefined && { createdAfter: readTime(after, "past") }),
    ...(before !== undefined && { createdBefore: readTime(before, "past") }),
  };
}

function keyScopeOf({ key, "key-scope": scope, "key-zone": zone }: GivenFilter): Pick<JobConditions, "keyScope"> {
  if (scope === undefined) {
    if (zone !== undefined) throw new UsageError("--key-zone requires --key-scope");
    return {};
  }
  if (key === undefined) throw new UsageError("--key-scope requires --key");
  return { keyScope: { calendar: scope as CalendarUnit, ...(zone !== undefined && { zone }) } };
}

function inputOf({ "input-path": path, equals, "input-text": text }: GivenFilter): JobConditions["input"] {
  if (equals !== undefined && text !== undefined) throw new UsageError("--equals and --input-text cannot be combined");
  const at = path === undefined ? {} : { path: pathOf(path) };
  if (equals !== undefined) return { ...at, equals: valueOf(equals) };
  if (text !== undefined) return { ...at, text };
  if (path !== undefined) throw new UsageError("--input-path requires --equals or --input-text");
  return undefined;
}

/** An array of names and positions as JSON, for names with dots; anything else is a path with dots. */
function pathOf(text: string): string | (string | number)[] {
  const value = text.startsWith("[") ? valueOf(text) : text;
  return Array.isArray(value) ? (value as (string | number)[]) : text;
}

/** A JSON value; anything else is a string, which needs no quotes. */
function valueOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Whether each call examines a limited number of jobs, because no index helps. */
export function isSearch({ input, error }: Pick<JobConditions, "input" | "error">): boolean {
  return input !== undefined || error !== undefined;
}
