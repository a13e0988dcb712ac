import type { JobFilter } from "../../../store.js";
import { stringOf, type Item } from "../connection/attributes.js";
import { LISTED, sortableTime } from "./item-keys.js";

export type Order = "newest" | "oldest";

/** The part of a list that a page may contain. */
export interface Window {
  order: Order;
  /** Only jobs with at least this `listed` key. */
  from: string | null;
  /** Only jobs with a smaller `listed` key. */
  below: string | null;
  /** The last job of the previous page. */
  cursor: string | null;
}

/** An index entry of a job that may match. */
export interface Candidate {
  pk: string;
  listed: string;
}

export function candidate(item: Item): Candidate {
  return { pk: stringOf(item, "pk") ?? "", listed: listedOf(item) };
}

export function listedOf(item: Item): string {
  return stringOf(item, LISTED.range) ?? "";
}

/** `cursor`: the `listed` key after which the page begins. */
export function windowOf({ createdAfter, createdBefore }: JobFilter, cursor: string | null, order: Order): Window {
  const from = createdAfter === undefined ? null : sortableTime(createdAfter);
  const below = createdBefore === undefined ? null : sortableTime(createdBefore);
  return after({ order, from, below, cursor: null }, cursor);
}

/** The part of the window after this job. */
export function after(window: Window, cursor: string | null): Window {
  if (cursor === null) return window;
  const { order, from, below } = window;
  if (order === "newest") return { ...window, cursor, below: below === null || cursor < below ? cursor : below };
  return { ...window, cursor, from: from === null || cursor > from ? cursor : from };
}

/** No job can be in it. DynamoDB rejects a range whose end is before its start. */
export function isEmptyWindow({ from, below }: Window): boolean {
  return from !== null && below !== null && from > below;
}

/** The window as bounds of a query. With both, `below` is inclusive: the entry of the cursor may be returned. */
export function boundsOf({ from, below, order }: Window): { from?: string; below?: string; newestFirst: boolean } {
  const newestFirst = order === "newest";
  return from === null && below === null ? { newestFirst } : { from: from ?? "0", below: below ?? "~", newestFirst };
}

export function isInside(listed: string, { from, below, cursor }: Window): boolean {
  return (from === null || listed >= from) && (below === null || listed < below) && listed !== cursor;
}

export function comesFirst(a: string, b: string, order: Order): boolean {
  return order === "newest" ? a > b : a < b;
}
