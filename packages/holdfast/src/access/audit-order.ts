import { InvalidOptionError } from "../errors.js";

/** Where an entry of the audit log stands: by the store's time, and of one time by id. */
export interface AuditPlace {
  at: number;
  id: string;
}

/** Entries from a time on that stand below a place. */
export interface AuditWindow {
  from: number;
  below: AuditPlace;
}

const FIRST_ID = "00000000-0000-0000-0000-000000000000";
const FORM = /^(\d{1,16})_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;

/** The cursor of a page whose last entry stands here: it stays right whatever is added meanwhile. */
export function auditCursor({ at, id }: AuditPlace): string {
  return `${at}_${id}`;
}

/** What is left of a list: `after` and later, before `before`, and past the entry at which the page before ended. */
export function auditWindow(
  { after, before }: { after?: number | undefined; before?: number | undefined },
  cursor: string | null,
): AuditWindow {
  const bound = { at: before ?? Number.MAX_SAFE_INTEGER, id: FIRST_ID };
  const last = cursor === null ? bound : readCursor(cursor);
  const from = after ?? 0;
  return { from, below: isBelow(last, bound) ? last : bound };
}

function isBelow(a: AuditPlace, b: AuditPlace): boolean {
  return a.at === b.at ? a.id < b.id : a.at < b.at;
}

function readCursor(cursor: string): AuditPlace {
  const [, at, id] = FORM.exec(cursor) ?? [];
  if (at === undefined || id === undefined || !Number.isSafeInteger(Number(at))) {
    throw new InvalidOptionError("cursor", "is not a cursor that list gave");
  }
  return { at: Number(at), id };
}
