// What the filter suggests while it is typed. Pure.
import type { StatsResult } from "holdfast/admin";
import type { IconName } from "../../ui/icon.js";
import { STATES, type State } from "./filter.js";
import { quote } from "../../app/text.js";

export interface Suggestion {
  /** What the draft becomes. */
  text: string;
  /** The part of it that was typed already. */
  typed: string;
  /** It needs no more characters. */
  isWhole: boolean;
  icon: IconName;
  sample?: string;
  about: string;
  /** How many jobs have it. */
  count?: number;
}

/** Where the suggestions come from. */
export interface Sources {
  stats: StatsResult | null;
  types: readonly string[];
  /** The states of the filter, for the counts. Empty: all. */
  states: readonly State[];
  /** Values of the rows that are shown. */
  shown: Readonly<Record<"user" | "tag" | "schedule", readonly string[]>>;
}

interface Field {
  icon: IconName;
  about: string;
  sample?: string;
}

/** Those that are used most come first. */
export const FIELDS: Readonly<Record<string, Field>> = {
  state: { icon: "pending", about: "State of the job", sample: "dead  failed,dead" },
  type: { icon: "jobs", about: "Job type", sample: "email.*" },
  queue: { icon: "queues", about: "Queue" },
  user: { icon: "user", about: "User whose job it is" },
  tag: { icon: "bookmark", about: "One of its tags" },
  created: { icon: "clock", about: "When it was enqueued", sample: "<1h  >13:45  today" },
  error: { icon: "alert", about: "Text in the current error", sample: '"timed out"' },
  "input.": { icon: "search", about: "Value in the input", sample: "order.id:o-17" },
  key: { icon: "lock", about: "Unique key" },
  input: { icon: "search", about: "Text anywhere in the input" },
  schedule: { icon: "schedules", about: "Schedule that enqueued it" },
  parent: { icon: "child", about: "Job whose handler enqueued it" },
  priority: { icon: "priority", about: "Priority, -100 to 100" },
  id: { icon: "link", about: "Id of the job" },
  fingerprint: { icon: "group", about: "Group of errors" },
};
const CREATED: readonly (readonly [value: string, about: string])[] = [
  ["<1h", "In the last hour"],
  ["<24h", "In the last 24 hours"],
  ["today", "Since midnight"],
  ["yesterday", "The day before"],
  [">1h", "More than an hour ago"],
  [">7d", "More than a week ago"],
];
const MAX = 10;

export function suggest(draft: string, sources: Sources): Suggestion[] {
  const minus = draft.startsWith("-") ? "-" : "";
  const typed = draft.slice(minus.length);
  const colon = typed.indexOf(":");
  if (colon >= 0) return valuesOf(minus, typed.slice(0, colon).toLowerCase(), typed.slice(colon + 1), sources);
  const word = typed.toLowerCase();
  const found = Object.keys(FIELDS)
    .filter((name) => name.startsWith(word) && (minus === "" || ["state", "type", "queue"].includes(name)))
    .map((name): Suggestion => {
      const { icon, about, sample } = FIELDS[name] as Field;
      const text = `${minus}${name}${name.endsWith(".") ? "" : ":"}`;
      return { text, typed: draft, isWhole: false, icon, about, ...(sample !== undefined && { sample }) };
    });
  if (word.length < 2) return found.slice(0, MAX);
  const guesses = [
    ...valuesOf(minus, "state", word, sources),
    ...valuesOf(minus, "type", word, sources).slice(0, 4),
    ...(minus === "" ? [searchFor(typed)] : []),
  ];
  return [...found, ...guesses.map((each) => ({ ...each, typed }))].slice(0, MAX);
}

function searchFor(typed: string): Suggestion {
  return { text: `input:${quote(typed)}`, typed, isWhole: true, icon: "search", about: "Search the inputs" };
}

function valuesOf(minus: string, field: string, given: string, sources: Sources): Suggestion[] {
  const part = given.replace(/^"/, "").toLowerCase();
  const icon = FIELDS[field]?.icon ?? "search";
  const make = (value: string, about: string, count?: number): Suggestion => ({
    text: `${minus}${field}:${field === "created" ? value : quote(value)}`,
    typed: part,
    isWhole: true,
    icon,
    about,
    ...(count !== undefined && { count }),
  });
  if (field === "state")
    return STATES.filter((state) => state.startsWith(part)).map((state) => ({
      ...make(state, "", sources.stats?.states[state]),
      icon: state,
    }));
  if (field === "type" || field === "queue") {
    const counts = (field === "type" ? sources.stats?.types : sources.stats?.queues) ?? {};
    const names = new Set([...Object.keys(counts), ...(field === "type" ? sources.types : [])]);
    return [...names]
      .filter((name) => name.toLowerCase().includes(part))
      .map((name) => make(name, "", countOf(Object.hasOwn(counts, name) ? counts[name] : undefined, sources.states)))
      .toSorted((one, other) => (other.count ?? 0) - (one.count ?? 0))
      .slice(0, MAX);
  }
  if (field === "created")
    return CREATED.filter(([value]) => value.startsWith(part)).map(([value, about]) => make(value, about));
  if (field === "user" || field === "tag" || field === "schedule")
    return sources.shown[field]
      .filter((value) => value.toLowerCase().includes(part))
      .slice(0, MAX)
      .map((value) => make(value, "Shown below"));
  return [];
}

function countOf(counts: Readonly<Record<State, number>> | undefined, states: readonly State[]): number {
  if (counts === undefined) return 0;
  return (states.length === 0 ? STATES : states).reduce((sum, state) => sum + counts[state], 0);
}
