import { InvalidOptionError } from "../../../errors.js";

/** A place in a list whose pages may come in any order: the partitions are read one after another. */
export interface Place {
  /** `lists`: all jobs by type and shard. `live`: live jobs by lane and shard. `ids`: the ids of the filter. */
  by: "lists" | "live" | "ids";
  /** The group of partitions, by its {@link groupName}; for `ids` the last id that was read. */
  group: string;
  /** The last entry of the group that was read; null at its start. */
  at: string | null;
}

/** Where a list continues. */
export interface Position {
  /** The last job of the pages that were in order; null before the first. */
  listed: string | null;
  /** Null: the list is in order. Otherwise it continues here, with the jobs after `listed`. */
  place: Place | null;
}

export const START: Position = { listed: null, place: null };

const LISTED_KEY = String.raw`\d{15}_\d{6,20}_[0-9a-f-]{36}`;
const IN_ORDER = new RegExp(`^${LISTED_KEY}$`);
const IN_ANY_ORDER = new RegExp(
  `^(lists|live|ids)_([0-9a-f-]{16,36})(?:_at_((?:\\d{15}_)?${LISTED_KEY}))?(?:_after_(${LISTED_KEY}))?$`,
);

/** A position as letters, digits, `_` and `-`, which a URL need not escape. */
export function cursorOf({ listed, place }: Position): string {
  if (place === null) return urlSafe(listed ?? "");
  const at = place.at === null ? "" : `_at_${urlSafe(place.at)}`;
  return `${place.by}_${place.group}${at}${listed === null ? "" : `_after_${urlSafe(listed)}`}`;
}

/** Reads a cursor. `anyOrder`: whether it may belong to a list in any order. */
export function positionOf(cursor: string | null, { anyOrder }: { anyOrder: boolean }): Position {
  if (cursor === null) return START;
  if (IN_ORDER.test(cursor)) return { listed: keyOf(cursor), place: null };
  const [, by, group, at, listed] = (anyOrder && IN_ANY_ORDER.exec(cursor)) || [];
  if (by === undefined || group === undefined) throw foreignCursor();
  return {
    listed: listed === undefined ? null : keyOf(listed),
    place: { by: by as Place["by"], group, at: at === undefined ? null : keyOf(at) },
  };
}

export function foreignCursor(): InvalidOptionError {
  return new InvalidOptionError("cursor", "is not a cursor that list() returned");
}

function urlSafe(key: string): string {
  return key.replaceAll("#", "_");
}
function keyOf(text: string): string {
  return text.replaceAll("_", "#");
}
