/** The transactions that a snapshot contains: all before `xmax` except those in `open`, which are in order. */
export interface Snapshot {
  xmax: bigint;
  open: readonly bigint[];
}

/**
 * A position among the recorded transitions. Transactions do not commit in the order in which they write, so it is not a number
 * but a snapshot: everything that it contains was returned before.
 */
export interface TransitionCursor {
  epoch: number;
  returned: Snapshot;
  /** In the middle of the transitions between two snapshots: the second one, and the last transition that was returned. */
  within: { upTo: Snapshot; row: number; place: number } | null;
}

// Two snapshots, an epoch and a position have at most 1,000 characters.
const MAX_SNAPSHOT_LENGTH = 450;
const MAX_CURSOR_LENGTH = 1_000;
const MAX_XID = 2n ** 63n - 1n;
const RADIX = 36;

/** Reads PostgreSQL's format, `xmin:xmax:xip,xip,…`. */
export function readSnapshot(text: string): Snapshot {
  const [, xmax = "0", open = ""] = text.split(":");
  return { xmax: BigInt(xmax), open: open === "" ? [] : open.split(",").map(BigInt) };
}

export function snapshotText({ xmax, open }: Snapshot): string {
  return `${xminOf({ xmax, open })}:${xmax}:${open.join(",")}`;
}

/** The first transaction that the snapshot may not contain. */
export function xminOf({ xmax, open }: Snapshot): bigint {
  return open[0] ?? xmax;
}

/**
 * A snapshot that fits into a cursor: this one, or if too many transactions are open, the part of it before one of them. What
 * that leaves out is returned later.
 */
export function fittingSnapshot(snapshot: Snapshot): Snapshot {
  let fitting = snapshot;
  while (encode(fitting).length > MAX_SNAPSHOT_LENGTH) {
    const count = Math.floor(fitting.open.length * 0.75);
    fitting = { xmax: fitting.open[count] as bigint, open: fitting.open.slice(0, count) };
  }
  return fitting;
}

export function cursorText({ epoch, returned, within }: TransitionCursor): string {
  const parts = [epoch.toString(RADIX), encode(returned)];
  if (within !== null) parts.push(encode(within.upTo), within.row.toString(RADIX), within.place.toString(RADIX));
  return parts.join("-");
}

/** Null: no cursor of this store. */
export function readCursor(text: string): TransitionCursor | null {
  if (text.length > MAX_CURSOR_LENGTH || !/^[0-9a-z.-]+$/.test(text)) return null;
  const parts = text.split("-");
  const [epoch, returned, upTo, row, place] = parts;
  if (parts.length !== 2 && parts.length !== 5) return null;
  const numbers = [epoch, row, place].map((each) => readCount(each));
  const snapshots = [returned, upTo].map((each) => decode(each));
  const [epochRead, rowRead, placeRead] = numbers;
  const [lower, upper] = snapshots;
  if (epochRead === null || epochRead === undefined || lower === null || lower === undefined) return null;
  if (parts.length === 2) return { epoch: epochRead, returned: lower, within: null };
  if (upper === null || upper === undefined || rowRead === null || rowRead === undefined) return null;
  if (placeRead === null || placeRead === undefined) return null;
  return { epoch: epochRead, returned: lower, within: { upTo: upper, row: rowRead, place: placeRead } };
}

/** `xmax`, and then the distance of each open transaction to the next one, from the last to the first: mostly one digit. */
function encode({ xmax, open }: Snapshot): string {
  const descending = [xmax, ...open.toReversed()];
  const distances = descending.slice(1).map((each, at) => (descending[at] as bigint) - each);
  return [xmax, ...distances].map((each) => each.toString(RADIX)).join(".");
}

function decode(text: string | undefined): Snapshot | null {
  const [xmax, ...distances] = (text ?? "").split(".").map(readNumber);
  if (xmax === null || xmax === undefined) return null;
  const open: bigint[] = [];
  let last = xmax;
  for (const distance of distances) {
    if (distance === null || distance === 0n || distance >= last) return null;
    open.unshift((last -= distance));
  }
  return { xmax, open };
}

function readNumber(text: string): bigint | null {
  if (!/^[0-9a-z]{1,13}$/.test(text)) return null;
  let value = 0n;
  for (const digit of text) value = value * BigInt(RADIX) + BigInt(Number.parseInt(digit, RADIX));
  return value <= MAX_XID ? value : null;
}

function readCount(text: string | undefined): number | null {
  const value = readNumber(text ?? "");
  return value === null || value > BigInt(Number.MAX_SAFE_INTEGER) ? null : Number(value);
}
