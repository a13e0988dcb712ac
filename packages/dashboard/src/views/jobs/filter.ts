// A filter: from its text to the conditions that the server knows, and back. Pure.
import type { JobConditions, JobSummary } from "holdfast/admin";
import { CREATED_HELP, intersect, readCreated } from "./filter-created.js";
import { isJobId, quote } from "../../app/text.js";
import { readToken, splitTokens, type RawToken } from "./filter-text.js";

export type State = JobSummary["state"];
export const STATES: readonly State[] = ["running", "claimed", "pending", "failed", "dead", "completed", "cancelled"];

/** What a filter is read with. */
export interface Known {
  now: number;
  /** The names that `*` and `-` choose from. Undefined: they are not loaded yet; null: the role may not see them. */
  types: readonly string[] | null | undefined;
  queues: readonly string[] | null | undefined;
}

export interface Token extends RawToken {
  /** Why it is not used; null if it is. */
  problem: string | null;
}

export interface Filter {
  tokens: readonly Token[];
  conditions: JobConditions;
  /** No job can match: `state:dead -state:dead`. */
  isImpossible: boolean;
  /** Names that it needs are not loaded yet. */
  isWaiting: boolean;
}

const MAX_NAMES = 50;
const MAX_IDS = 1_000;

/** Fields with one value: how it is read, or a sentence about what is wrong. */
const SINGLE: Readonly<Record<string, (value: string) => JobConditions | string>> = {
  user: (user) => limited(user, 200) ?? { user },
  tag: (tag) => limited(tag, 100) ?? { tag },
  key: (key) => limited(key, 500) ?? { key },
  schedule: (schedule) => limited(schedule, 200) ?? { schedule },
  parent: (parent) => (isJobId(parent) ? { parent } : "Type the whole id of a job"),
  priority: (value) =>
    /^-?\d{1,3}$/.test(value) && Math.abs(Number(value)) <= 100
      ? { priority: Number(value) }
      : "Type a whole number from -100 to 100",
  fingerprint: (fingerprint) =>
    /^[0-9a-f]{16}$/.test(fingerprint)
      ? { fingerprint }
      : "A fingerprint has 16 characters, 0 to 9 and a to f. Copy it from Failures",
  error: (error) => limited(error, 1_000) ?? { error },
};
/** Fields that people look for, and what to do as long as the server has no condition for them. */
const MISSING: Readonly<Record<string, string>> = {
  worker: "The server cannot filter by worker yet. Workers shows what each one runs",
};
/** Fields whose values can be combined and excluded, and have `*`. */
const LISTS = ["state", "type", "queue"] as const;
type ListField = (typeof LISTS)[number];
const FIELDS: readonly string[] = [...LISTS, ...Object.keys(SINGLE), "id", "input", "created", ...Object.keys(MISSING)];

interface Chosen {
  included: Set<string> | null;
  excluded: Set<string>;
}

export function parseFilter(text: string, known: Known): Filter {
  const reader = new Reader(known);
  const tokens = splitTokens(text).map((part): Token => {
    const token = readToken(part);
    return { ...token, problem: reader.add(token) };
  });
  return { tokens, ...reader.end() };
}

class Reader {
  readonly #known: Known;
  readonly #lists: Record<ListField, Chosen> = { state: none(), type: none(), queue: none() };
  readonly #ids: string[] = [];
  #conditions: JobConditions = {};
  #isWaiting = false;

  constructor(known: Known) {
    this.#known = known;
  }

  /** Returns why a token is not used. */
  add(token: RawToken): string | null {
    const { field, value, isExcluded } = token;
    if (field === "") {
      if (isJobId(value)) return this.#addId(value);
      return `Put a field before it, such as type:${value} or input:${value}`;
    }
    if (token.isOpen) return "The quotation mark is not closed";
    if (!FIELDS.includes(field)) return `There is no field ${field}. Fields are ${FIELDS.join(", ")}`;
    if (token.path !== null && field !== "input") return `Only input can have a path`;
    if (value === "") return "Type a value after the colon";
    if (Object.hasOwn(MISSING, field)) return MISSING[field] ?? null;
    if (isList(field)) return this.#addToList(field, token);
    if (isExcluded) return `The server cannot exclude by ${field} yet, only by state, type and queue`;
    if (field === "id") return isJobId(value) ? this.#addId(value) : "Type the whole id of a job";
    if (field === "created") return this.#addCreated(value);
    if (field === "input") return this.#addOnce("input", readInput(token));
    return this.#addOnce(field, SINGLE[field]?.(value) ?? "");
  }

  end(): Omit<Filter, "tokens"> {
    const conditions: JobConditions = { ...this.#conditions };
    let isImpossible = false;
    for (const field of LISTS) {
      const { included, excluded } = this.#lists[field];
      if (included === null && excluded.size === 0) continue;
      const left = [...(included ?? this.#names(field) ?? [])].filter((name) => !excluded.has(name));
      if (left.length === 0) isImpossible = true;
      // All states: the condition would choose nothing.
      else if (field !== "state") conditions[field] = left;
      else if (left.length < STATES.length) conditions.state = STATES.filter((state) => left.includes(state));
    }
    if (this.#ids.length > 0) conditions.id = this.#ids;
    const { createdAfter, createdBefore } = conditions;
    if (createdAfter !== undefined && createdBefore !== undefined && createdAfter >= createdBefore) isImpossible = true;
    return { conditions, isImpossible, isWaiting: this.#isWaiting };
  }

  #names(field: ListField): readonly string[] | null | undefined {
    if (field === "state") return STATES;
    return field === "type" ? this.#known.types : this.#known.queues;
  }

  #addToList(field: ListField, { value, isExcluded, isQuoted }: RawToken): string | null {
    // Names may contain commas, states do not.
    const values = field === "state" && !isQuoted ? value.split(",").filter((each) => each !== "") : [value];
    const found: string[] = [];
    for (const each of values) {
      const names = this.#named(field, each, isQuoted);
      if (typeof names === "string") return names;
      found.push(...names);
    }
    const chosen = this.#lists[field];
    if (isExcluded && field !== "state" && chosen.included === null) {
      const all = this.#names(field);
      if (all === undefined) this.#isWaiting = true;
      else if (all === null) return `Your role does not see the list of ${field}s, which - needs`;
      else if (all.length - found.length > MAX_NAMES)
        return `More than ${MAX_NAMES} ${field}s are left. Choose those that you want instead`;
    }
    const next = isExcluded ? chosen.excluded : (chosen.included ?? new Set());
    if (!isExcluded && next.size + found.length > MAX_NAMES && field !== "state")
      return `At most ${MAX_NAMES} ${field}s can be chosen. This would be ${next.size + found.length}`;
    for (const name of found) next.add(name);
    if (!isExcluded) chosen.included = next;
    return null;
  }

  /** The names that a value stands for, or why there are none. */
  #named(field: ListField, value: string, isQuoted: boolean): string[] | string {
    const all = this.#names(field);
    if (value.includes("*") && !isQuoted) {
      if (all === null) return `Your role does not see the list of ${field}s, which * needs`;
      if (all === undefined) {
        this.#isWaiting = true;
        return [];
      }
      // None: nothing matches, which is not a mistake.
      return all.filter((name) => matchesWildcard(name.toLowerCase(), value.toLowerCase().split("*")));
    }
    if (field !== "state") return limited(value, field === "type" ? 200 : 100) ?? [value];
    const state = value.toLowerCase();
    return STATES.some((each) => each === state)
      ? [state]
      : `There is no state ${value}. States are ${STATES.join(", ")}`;
  }

  #addId(id: string): string | null {
    if (this.#ids.length >= MAX_IDS) return `At most ${MAX_IDS} ids can be chosen`;
    this.#ids.push(id.toLowerCase());
    return null;
  }

  #addCreated(value: string): string | null {
    const range = readCreated(value, this.#known.now);
    if (typeof range === "string") return range;
    this.#conditions = { ...this.#conditions, ...intersect(this.#conditions, range) };
    return null;
  }

  #addOnce(field: string, read: JobConditions | string): string | null {
    if (typeof read === "string") return read;
    if (Object.hasOwn(this.#conditions, field)) return `Only one ${field} can be chosen. Remove the other one`;
    this.#conditions = { ...this.#conditions, ...read };
    return null;
  }
}

function none(): Chosen {
  return { included: null, excluded: new Set() };
}

function isList(field: string): field is ListField {
  return LISTS.some((each) => each === field);
}

function limited(value: string, maxLength: number): string | null {
  return value.length > maxLength ? `It is longer than ${maxLength} characters` : null;
}

/** Whether a name has these parts, with anything between them. A regular expression could take hours for many parts. */
function matchesWildcard(name: string, [first = "", ...parts]: readonly string[]): boolean {
  const last = parts.pop() ?? "";
  if (!name.startsWith(first)) return false;
  let at = first.length;
  for (const part of parts) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return name.length - last.length >= at && name.endsWith(last);
}

function readInput({ path, value, isPart, isQuoted }: RawToken): JobConditions | string {
  const problem = limited(value, 1_000);
  if (problem !== null) return problem;
  if (path === null) return { input: { text: value } };
  if (path === "") return "Type the name of a field after input.";
  if (path.length > 500) return "The path is longer than 500 characters";
  if (isPart) return { input: { path, text: value } };
  return { input: { path, equals: isQuoted ? value : jsonOf(value) } };
}

/** Numbers, `true`, `null` and the like as JSON; everything else is a string. */
function jsonOf(value: string): unknown {
  try {
    return JSON.parse(value) as unknown;
  } catch {
    return value;
  }
}

/** The text of a filter with these conditions, for links to the list. */
export function queryOf(conditions: JobConditions): string {
  const { state, type = [], queue = [], id = [], input, createdAfter, createdBefore } = conditions;
  const tokens = [
    ...(state === undefined ? [] : [`state:${state.join(",")}`]),
    ...type.map((name) => `type:${quote(name)}`),
    ...queue.map((name) => `queue:${quote(name)}`),
  ];
  for (const field of ["user", "tag", "key", "schedule", "parent", "priority", "fingerprint", "error"] as const) {
    const value = conditions[field];
    if (value !== undefined) tokens.push(`${field}:${quote(String(value))}`);
  }
  tokens.push(...id.map((each) => `id:${each}`));
  if (input !== undefined) tokens.push(inputToken(input));
  if (createdAfter !== undefined) tokens.push(`created:>=${createdAfter}`);
  if (createdBefore !== undefined) tokens.push(`created:<${createdBefore}`);
  return tokens.join(" ");
}

function inputToken({ path, equals, text }: NonNullable<JobConditions["input"]>): string {
  const place = path === undefined ? "input" : `input.${typeof path === "string" ? path : path.join(".")}`;
  if (text !== undefined) return `${place}:${path === undefined ? "" : "~"}${quote(text)}`;
  if (typeof equals !== "string") return `${place}:${JSON.stringify(equals)}`;
  return `${place}:${quote(equals, jsonOf(equals) !== equals)}`;
}

/** Whether a job matches. Null: only the server knows, because lists have no inputs and may have a part of a message. */
export function matches(job: JobSummary, conditions: JobConditions): boolean | null {
  const { state, type, queue, id, user, tag, key, schedule, parent, priority, fingerprint } = conditions;
  const { createdAfter, createdBefore, input, error } = conditions;
  const created = Date.parse(job.createdAt);
  const isMatch =
    (state?.includes(job.state) ?? true) &&
    (type?.includes(job.type) ?? true) &&
    (queue?.includes(job.queue) ?? true) &&
    (id?.includes(job.id) ?? true) &&
    (user === undefined || job.user === user) &&
    (tag === undefined || job.tags.includes(tag)) &&
    (key === undefined || job.key === key) &&
    (schedule === undefined || job.schedule?.name === schedule) &&
    (parent === undefined || job.parent === parent) &&
    (priority === undefined || job.priority === priority) &&
    (fingerprint === undefined || job.error?.fingerprint === fingerprint) &&
    (error === undefined || job.error !== null) &&
    (createdAfter === undefined || created >= Date.parse(createdAfter)) &&
    (createdBefore === undefined || created < Date.parse(createdBefore));
  return isMatch && (input !== undefined || error !== undefined) ? null : isMatch;
}

/** The text with other states, for the tabs. Null: all. */
export function withState(text: string, state: State | null): string {
  const others = splitTokens(text).filter((token) => readToken(token).field !== "state");
  return [...(state === null ? [] : [`state:${state}`]), ...others].join(" ");
}

export { CREATED_HELP, splitTokens };
