import { createHash } from "node:crypto";
import { InvalidOptionError } from "../../../../errors.js";

/** Where reading continues in a shard. */
export type Place =
  /** After this record. */
  | { after: bigint }
  /** At the oldest record of the shard. */
  | { after: "start" }
  /** After the records that existed at this time. Nothing was read yet, so no sequence number is known. */
  | { after: "time"; at: number };

/** A position in a stream. Each shard is named by a hash of its id. */
export interface StreamPosition {
  /** When the cursor was returned. */
  at: number;
  /** A hash of the stream's label: a stream that is switched off and on again is another one. */
  stream: string;
  places: ReadonlyMap<string, Place>;
}

/** The places as a string, or the id of the item that has them. */
export type StoredPlaces = { places: string } | { item: string };

const PREFIX = "s1";
const PLACE = /^([\w-]{6})(?:a([\w-]{1,24})|t([0-9a-z]{1,11})|(s))$/;

export function isStreamCursor(cursor: string): boolean {
  return cursor.startsWith(`${PREFIX}.`);
}

export function streamCursorOf({ at, stream }: Pick<StreamPosition, "at" | "stream">, stored: StoredPlaces): string {
  return [PREFIX, at.toString(36), stream, "item" in stored ? `@${stored.item}` : stored.places].join(".");
}

export function readStreamCursor(cursor: string): Pick<StreamPosition, "at" | "stream"> & { stored: StoredPlaces } {
  const [, at, stream, item, places] =
    /^s1\.([0-9a-z]{1,11})\.([\w-]{8})\.(?:@([0-9a-f-]{36})|([\w~-]{1,1000}))$/.exec(cursor) ?? [];
  if (at === undefined || stream === undefined || (item === undefined && places === undefined)) throw invalid();
  return {
    at: Number.parseInt(at, 36),
    stream,
    stored: item !== undefined ? { item } : { places: places ?? "" },
  };
}

export function showPlaces(places: ReadonlyMap<string, Place>): string {
  return [...places].map(([shard, place]) => `${shard}${showPlace(place)}`).join("~");
}

export function readPlaces(text: string): Map<string, Place> {
  return new Map(
    text.split("~").map((each): [string, Place] => {
      const [, shard, sequence, time, start] = PLACE.exec(each) ?? [];
      if (shard === undefined) throw invalid();
      if (start !== undefined) return [shard, { after: "start" }];
      if (time !== undefined) return [shard, { after: "time", at: Number.parseInt(time, 36) }];
      return [shard, { after: readSequence(sequence ?? "") }];
    }),
  );
}

function showPlace(place: Place): string {
  if (place.after === "start") return "s";
  return place.after === "time" ? `t${place.at.toString(36)}` : `a${showSequence(place.after)}`;
}

/** Up to 40 digits in 23 characters. */
function showSequence(sequence: bigint): string {
  const hex = sequence.toString(16);
  return Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, "hex").toString("base64url");
}
function readSequence(text: string): bigint {
  return BigInt(`0x${Buffer.from(text, "base64url").toString("hex") || "0"}`);
}

/** The short name of a shard. */
export function shardName(id: string): string {
  return hashOf(id).slice(0, 6);
}
/** The short name of a stream. */
export function streamName(arn: string): string {
  return hashOf(arn).slice(0, 8);
}
function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}

function invalid(): InvalidOptionError {
  return new InvalidOptionError("cursor", "is not a cursor of this store's transitions");
}
