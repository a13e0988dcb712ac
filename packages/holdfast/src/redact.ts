import { InvalidOptionError } from "./errors.js";
import { show } from "./options.js";

/** The placeholder of a redacted value. */
export const REDACTED = "[redacted]";

/** Returns a copy of a JSON value in which secret values are replaced; the value itself if it contains none. */
export type Redactor = <Value>(value: Value) => Value;

// Limits that keep a redactor fast. Values that are nested deeper, or that come after this many others, are not checked and so
// always redacted. No payload of a job reaches the limits of depth and values.
const MAX_PATHS = 100;
const MAX_PATH_LENGTH = 500;
const MAX_DEPTH = 250;
const MAX_VALUES = 1_000_000;

const MAX_STATES = 1_000;

/** A part of a path, or its end. */
type Segment = { name: string } | "*" | "**" | "end";

/**
 * Creates a redactor for the given paths, whose parts are separated by dots: `input.password`, `input.cards.*.number` (`*` matches
 * any key or index), `**.token` (`**` matches any depth, including none). Escape a dot or star that is part of a key with a
 * backslash. Names are case-sensitive.
 *
 * ```ts
 * const redact = redactor(["input.card.number", "**.password"]);
 * redact({ input: { card: { number: "4242", brand: "visa" } } }); // { input: { card: { number: "[redacted]", … } } }
 * ```
 *
 * The redactor never modifies its argument. It expects values as `JSON.parse` returns them.
 */
export function redactor(paths: readonly string[]): Redactor {
  const start = redactionOf(paths);
  return <Value>(value: Value): Value => hide(value, start, 0, { values: MAX_VALUES }) as Value;
}

/** The initial state of a state machine that matches the paths: call `step` for each key on the way to a value. */
export function redactionOf(paths: readonly string[]): MatcherState {
  const program = readPaths(paths).flatMap((pattern): Segment[] => [...pattern, "end"]);
  return new States(program).start;
}

/** A state of the path matcher: the positions in the paths that match a value. */
export interface MatcherState {
  readonly positions: readonly number[];
  /** A path ends here, so the value is redacted. */
  readonly hidden: boolean;
  /** The state of the value under `key`. */
  step(key: string): MatcherState;
}

/**
 * A deterministic automaton for all paths together, built lazily. Each transition is computed once, so matching a value is one
 * table lookup, however many paths there are.
 */
class States {
  readonly start: MatcherState;
  readonly #program: readonly Segment[];
  readonly #names: ReadonlySet<string>;
  readonly #known = new Map<string, MatcherState>();

  constructor(program: readonly Segment[]) {
    this.#program = program;
    this.#names = new Set(program.flatMap((segment) => (typeof segment === "object" ? [segment.name] : [])));
    const starts = program.flatMap((_, position) =>
      position === 0 || program[position - 1] === "end" ? [position] : [],
    );
    this.start = this.#state(starts);
  }

  #state(from: readonly number[]): MatcherState {
    const positions = [...new Set(from.flatMap((position) => this.#reach(position)))].toSorted((a, b) => a - b);
    const label = positions.join(" ");
    return this.#known.get(label) ?? this.#make(label, positions);
  }

  #make(label: string, positions: readonly number[]): MatcherState {
    const next = new Map<string | null, MatcherState>();
    const state: MatcherState = {
      positions,
      hidden: positions.some((position) => this.#program[position] === "end"),
      step: (key) => {
        // All keys that no path names lead to the same state.
        const name = this.#names.has(key) ? key : null;
        const known = next.get(name) ?? this.#state(positions.flatMap((position) => this.#step(position, name)));
        next.set(name, known);
        return known;
      },
    };
    // Paths with many `**` can have very many states. Those above the limit are not cached.
    if (this.#known.size < MAX_STATES) this.#known.set(label, state);
    return state;
  }

  /** This position, and the next one if it is `**`, which also matches zero keys. */
  #reach(position: number): number[] {
    return this.#program[position] === "**" ? [position, ...this.#reach(position + 1)] : [position];
  }

  #step(position: number, name: string | null): number[] {
    const segment = this.#program[position];
    if (segment === "**") return [position];
    if (segment === "*" || (typeof segment === "object" && segment.name === name)) return [position + 1];
    return [];
  }
}

function hide(value: unknown, state: MatcherState, depth: number, left: { values: number }): unknown {
  if (state.positions.length === 0) return value;
  if (state.hidden || depth > MAX_DEPTH || --left.values < 0) return REDACTED;
  if (typeof value !== "object" || value === null) return value;
  let changed = false;
  const inside = (item: unknown, key: string): unknown => {
    const shown = hide(item, state.step(key), depth + 1, left);
    if (shown !== item) changed = true;
    return shown;
  };
  const copy = Array.isArray(value)
    ? value.map((item, index) => inside(item, String(index)))
    : // Not by assignment: the key `__proto__` would change the copy's prototype.
      Object.fromEntries(Object.entries(value).map(([key, item]) => [key, inside(item, key)]));
  return changed ? copy : value;
}

function readPaths(paths: readonly string[]): Segment[][] {
  if (!Array.isArray(paths) || paths.length > MAX_PATHS) {
    throw new InvalidOptionError("redact", `must be an array of at most ${MAX_PATHS} paths`);
  }
  return paths.map((path: unknown, index) => {
    if (typeof path !== "string" || path === "" || path.length > MAX_PATH_LENGTH) {
      throw new InvalidOptionError(
        `redact.${index}`,
        `${show(path)} is not a path of 1 to ${MAX_PATH_LENGTH} characters`,
      );
    }
    const parts = partsOf(path);
    if (parts.includes("")) {
      throw new InvalidOptionError(
        `redact.${index}`,
        `${show(path)} has an empty part; separate names with single dots`,
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
