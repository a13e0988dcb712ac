import { InvalidOptionError } from "./errors.js";
import { show } from "./options.js";

/** What stands where something was redacted. */
export const REDACTED = "[redacted]";

/** Gives a copy of a JSON value without what must not be shown; the value itself if there is nothing of that in it. */
export type Redactor = <Value>(value: Value) => Value;

// A path costs something at every value; what is nested deeper, or comes after so many values, is not looked at and so
// not shown either. No payload that a job can have reaches these.
const MOST_PATHS = 100;
const LONGEST_PATH = 500;
const DEEPEST = 250;
const MOST_VALUES = 1_000_000;

const MOST_STATES = 1_000;

/** A part of a path, or its end. */
type Segment = { name: string } | "*" | "**" | "end";

/**
 * Reads paths, with dots between their parts: `input.password`, `input.cards.*.number` (`*` is any key or index),
 * `**.token` (`**` is any depth, none included). A dot or a star that belongs to a key has a backslash before it. Names
 * are compared letter by letter.
 *
 * ```ts
 * const redact = redactor(["input.card.number", "**.password"]);
 * redact({ input: { card: { number: "4242", brand: "visa" } } }); // { input: { card: { number: "[redacted]", … } } }
 * ```
 *
 * The redactor never changes what it is given, and is meant for values as `JSON.parse` makes them.
 */
export function redactor(paths: readonly string[]): Redactor {
  const start = redactionOf(paths);
  return <Value>(value: Value): Value => hide(value, start, 0, { values: MOST_VALUES }) as Value;
}

/** Where the paths begin: what they hide is found by a step for each key. */
export function redactionOf(paths: readonly string[]): State {
  const program = readPaths(paths).flatMap((pattern): Segment[] => [...pattern, "end"]);
  return new States(program).start;
}

/** Places in the paths, one after the other, that a value is at. */
export interface State {
  readonly places: readonly number[];
  /** Some path ends here. */
  readonly hidden: boolean;
  /** What a key leads to. */
  step(key: string): State;
}

/**
 * The states of all paths together, made as they are come by. However many paths there are, a value costs one look into
 * a table: what a key leads to was found out the first time.
 */
class States {
  readonly start: State;
  readonly #program: readonly Segment[];
  readonly #names: ReadonlySet<string>;
  readonly #known = new Map<string, State>();

  constructor(program: readonly Segment[]) {
    this.#program = program;
    this.#names = new Set(program.flatMap((segment) => (typeof segment === "object" ? [segment.name] : [])));
    const starts = program.flatMap((_, place) => (place === 0 || program[place - 1] === "end" ? [place] : []));
    this.start = this.#state(starts);
  }

  #state(from: readonly number[]): State {
    const places = [...new Set(from.flatMap((place) => this.#reach(place)))].toSorted((a, b) => a - b);
    const label = places.join(" ");
    return this.#known.get(label) ?? this.#make(label, places);
  }

  #make(label: string, places: readonly number[]): State {
    const next = new Map<string | null, State>();
    const state: State = {
      places,
      hidden: places.some((place) => this.#program[place] === "end"),
      step: (key) => {
        // All keys that no path names lead to the same.
        const name = this.#names.has(key) ? key : null;
        const known = next.get(name) ?? this.#state(places.flatMap((place) => this.#step(place, name)));
        next.set(name, known);
        return known;
      },
    };
    // Paths with many `**` can have very many states; what is not kept is made again.
    if (this.#known.size < MOST_STATES) this.#known.set(label, state);
    return state;
  }

  /** The places that are as good as this one: `**` may stand for nothing. */
  #reach(place: number): number[] {
    return this.#program[place] === "**" ? [place, ...this.#reach(place + 1)] : [place];
  }

  #step(place: number, name: string | null): number[] {
    const segment = this.#program[place];
    if (segment === "**") return [place];
    if (segment === "*" || (typeof segment === "object" && segment.name === name)) return [place + 1];
    return [];
  }
}

function hide(value: unknown, state: State, depth: number, left: { values: number }): unknown {
  if (state.places.length === 0) return value;
  if (state.hidden || depth > DEEPEST || --left.values < 0) return REDACTED;
  if (typeof value !== "object" || value === null) return value;
  let changed = false;
  const inside = (item: unknown, key: string): unknown => {
    const shown = hide(item, state.step(key), depth + 1, left);
    if (shown !== item) changed = true;
    return shown;
  };
  const copy = Array.isArray(value)
    ? value.map((item, index) => inside(item, String(index)))
    : // Not by assignment: a key `__proto__` would change what the copy is.
      Object.fromEntries(Object.entries(value).map(([key, item]) => [key, inside(item, key)]));
  return changed ? copy : value;
}

function readPaths(paths: readonly string[]): Segment[][] {
  if (!Array.isArray(paths) || paths.length > MOST_PATHS) {
    throw new InvalidOptionError("redact", `must be a list of at most ${MOST_PATHS} paths`);
  }
  return paths.map((path: unknown, index) => {
    if (typeof path !== "string" || path === "" || path.length > LONGEST_PATH) {
      throw new InvalidOptionError(`redact.${index}`, `${show(path)} is not a path of 1 to ${LONGEST_PATH} characters`);
    }
    const parts = partsOf(path);
    if (parts.includes("")) {
      throw new InvalidOptionError(
        `redact.${index}`,
        `${show(path)} has an empty part; write names with a dot between them`,
      );
    }
    return parts.map(readSegment).filter((part, at, all) => part !== "**" || all[at - 1] !== "**");
  });
}

/** Split at the dots that have no backslash before them. */
function partsOf(path: string): string[] {
  const parts = [""];
  for (let at = 0; at < path.length; at++) {
    const last = parts.length - 1;
    if (path[at] === ".") parts.push("");
    else parts[last] += path[at] === "\\" ? path.slice(at, ++at + 1) : path.charAt(at);
  }
  return parts;
}

function readSegment(part: string): Segment {
  return part === "*" || part === "**" ? part : { name: part.replaceAll(/\\(.)/gsu, "$1") };
}
