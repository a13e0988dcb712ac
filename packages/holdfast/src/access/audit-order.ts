import { InvalidOptionError } from "../errors.js";

/** The position of an audit entry in the log: ordered by the store's time, then by id. */
export interface AuditPosition {
  at: number;
  id: string;
}

/** The entries of a page: not older than `from`, and before the position `below`. */
export interface AuditWindow {
  from: number;
  below: AuditPosition;
}

const FIRST_ID = "00000000-0000-0000-0000-000000000000";
const FORM = /^(\d{1,16})_([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;

/** The cursor of a page that ends at this entry. It stays valid when entries are added. */
export function auditCursor({ at, id }: AuditPosition): string {
  return `${at}_${id}`;
}

/** The remaining entries of a list: not before `after`, before `before`, and after the last entry of the previous page. */
export function auditWindow(
  { after, before }: { after?: number | undefined; before?: number | undefined },
  cursor: string | null,
): AuditWindow {
  const bound = { at: before ?? Number.MAX_SAFE_INTEGER, id: FIRST_ID };
  const last = cursor === null ? bound : readCursor(cursor);
  const from = after ?? 0;
  return { from, below: isBelow(last, bound) ? last : bound };
}

function isBelow(a: AuditPosition, b: AuditPosition): boolean {
  return a.at === b.at ? a.id < b.id : a.at < b.at;
}

function readCursor(cursor: string): AuditPosition {
  const [, at, id] = FORM.exec(cursor) ?? [];
  if (at === undefined || id === undefined || !Number.isSafeInteger(Number(at))) {
    throw new InvalidOptionError("cursor", "is not a cursor of an earlier page; start again without one");
  }
  return { at: Number(at), id };
}
