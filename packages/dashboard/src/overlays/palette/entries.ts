// What the palette finds. Pure.
import { isJobId, literal } from "../../app/text.js";
import type { IconName } from "../../ui/icon.js";

export interface Entry {
  group: "Actions" | "Go to";
  icon: IconName;
  /** What is searched. */
  text: string;
  /** Beside it, in grey. */
  about?: string;
  /** A link to a view; or what to do. */
  href?: string;
  run?: () => unknown;
}

const MAX = 12;

/** The id of a job that was pasted; null: it is something else. */
export function jobIdIn(text: string): string | null {
  const id = text.trim();
  return isJobId(id) ? id.toLowerCase() : null;
}

/** All words must occur; entries that begin with the text come first. `>` finds actions only. */
export function findEntries(entries: readonly Entry[], given: string): Entry[] {
  const isOnlyActions = given.trimStart().startsWith(">");
  const text = given.trim().replace(/^>\s*/, "").toLowerCase();
  const words = text.split(/\s+/).filter((word) => word !== "");
  const found = entries
    .filter(({ group }) => !isOnlyActions || group === "Actions")
    .map((entry, at) => ({ entry, at, rank: rankOf(entry.text.toLowerCase(), text, words) }))
    .filter(({ rank }) => rank > 0)
    .toSorted((one, other) => other.rank - one.rank || one.at - other.at)
    .slice(0, MAX)
    .map(({ entry }) => entry);
  // The groups stay together, that of the best entry first.
  const groups = [...new Set(found.map(({ group }) => group))];
  return groups.flatMap((group) => found.filter((entry) => entry.group === group));
}

function rankOf(name: string, text: string, words: readonly string[]): number {
  if (!words.every((word) => name.includes(word))) return 0;
  if (text === "") return 1;
  if (name.startsWith(text)) return 4;
  return words.every((word) => name.split(/[\s.:_-]+/).some((part) => part.startsWith(word))) ? 3 : 2;
}

/** The parts of a name, and whether each was typed. */
export function marked(text: string, given: string): { part: string; isTyped: boolean }[] {
  const words = given
    .replace(/^\s*>/, "")
    .split(/\s+/)
    .filter((word) => word !== "")
    .map(literal);
  if (words.length === 0) return [{ part: text, isTyped: false }];
  return text
    .split(new RegExp(`(${words.join("|")})`, "i"))
    .map((part, at) => ({ part, isTyped: at % 2 === 1 }))
    .filter(({ part }) => part !== "");
}
