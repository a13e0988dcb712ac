import { showValue } from "../../../config/index.js";
import type { Context } from "../../parse/command.js";
import type { GivenFilter } from "./filter.js";

/** The flags of a filter, by the fields of the API, for its errors. */
export const FILTER_NAMES: Readonly<Record<string, string>> = {
  id: "--id",
  state: "--state",
  type: "--type",
  queue: "--queue",
  priority: "--priority",
  user: "--user",
  tag: "--tag",
  key: "--key",
  schedule: "--schedule",
  parent: "--parent",
  "input.path": "--input-path",
  "input.equals": "--equals",
  "input.text": "--input-text",
  error: "--error",
  createdAfter: "--after",
  createdBefore: "--before",
  cursor: "--cursor",
  offset: "--offset",
};

/** For commands that take ids as arguments. */
export const ID_NAMES: Readonly<Record<string, string>> = { ...FILTER_NAMES, id: "<id>", ids: "<id>" };

/** If no job matched: says what a flag means that is often misunderstood. */
export function hintIfNothingMatched({ output }: Context, flags: Partial<GivenFilter>, matched: number): void {
  if (matched > 0) return;
  for (const name of ["type", "queue"] as const) {
    // Names may contain commas, so they are not split.
    const list = (flags[name] ?? []).find((value) => value.includes(","));
    if (list === undefined) continue;
    const flagsInstead = list
      .split(",")
      .map((value) => `--${name} ${value.trim()}`)
      .join(" ");
    output.note(`--${name} ${showValue(list)} is one name; for several, repeat the flag: ${flagsInstead}`);
  }
  if (flags.equals !== undefined && flags["input-path"] === undefined) {
    output.note(
      `--equals without --input-path compares the whole input with ${showValue(flags.equals)}; add --input-path, or use --input-text`,
    );
  }
}
