import type { Clock } from "../../../clock.js";
import { InvalidOptionError } from "../../../errors.js";
import { optionKeys, readCount, refuseUnknown, show } from "../../../options.js";
import { hideSecret } from "../../../access/secret.js";
import type { DynamoClient } from "./table.js";

export interface DynamoOptions {
  /** Your own `DynamoDBClient` of the AWS SDK. Default: Holdfast creates one. */
  client?: DynamoClient;
  /** Your own `DynamoDBStreamsClient`. Default: Holdfast creates one with the configuration of `client`. */
  streamsClient?: DynamoClient;
  /** The name of the table. Default `holdfast`. */
  table?: string;
  /** Not with `client`. Default: as the environment configures the AWS SDK. */
  region?: string;
  /** Another endpoint than that of AWS, for example DynamoDB Local. Not with `client`. */
  endpoint?: string;
  /**
   * How many shards each queue is split into: one for every 250 jobs a second. Can be raised at any time.
   * Default: as many as the table has; a new table gets 8.
   */
  shards?: number;
  /** How far the clocks of different machines may differ. Default 1,000. */
  marginMs?: number;
  /**
   * How far beyond the end of an extended lease its index entry is moved, in lease durations, from 0 to 1. A larger
   * value makes long jobs cheaper, but an expired lease is found later. Default 1.
   */
  slack?: number;
  /** The maximum number of concurrent requests. Default 64. */
  requests?: number;
  /** How long to wait for a response before the request is sent again. Default 5,000. */
  requestTimeoutMs?: number;
  /**
   * `true`: `migrate` creates the table with a stream, or enables it, and `hf.follow` reads it. `false`: `hf.follow` does not read the
   * stream. Default: `hf.follow` reads it if the table has one. Holdfast never disables a stream.
   */
  stream?: boolean;
  /** For tests. Default: the local clock, corrected by DynamoDB's responses. */
  clock?: Clock;
}

const FIELDS: ReadonlySet<string> = optionKeys<DynamoOptions>({
  client: true,
  streamsClient: true,
  table: true,
  region: true,
  endpoint: true,
  shards: true,
  marginMs: true,
  slack: true,
  requests: true,
  requestTimeoutMs: true,
  stream: true,
  clock: true,
});
const MAX_SHARDS = 1_000;
const REQUEST_TIMEOUT_MS = 5_000;

/** The validated options with defaults. */
export interface DynamoSettings extends Pick<DynamoOptions, "client" | "streamsClient" | "region" | "endpoint"> {
  /** The name of the table. */
  name: string;
  shards: number | null;
  marginMs: number;
  requests: number;
  requestTimeoutMs: number;
  slack: number;
  /** Null: the table may have a stream or not. */
  stream: boolean | null;
}

/** Validates the options. Does not connect, and does not load the AWS SDK. */
export function readDynamoOptions(given: DynamoOptions): DynamoSettings {
  refuseUnknown(given, FIELDS, "dynamodb");
  const { client, streamsClient, region, endpoint } = given;
  const name = given.table ?? "holdfast";
  if (typeof name !== "string" || !/^[\w.-]{3,255}$/.test(name)) {
    throw new InvalidOptionError(
      "table",
      `${show(hideSecret(name))} is not a valid table name: 3 to 255 of a-z, A-Z, 0-9, _ - .`,
    );
  }
  if (client !== undefined && typeof client?.send !== "function") {
    throw new InvalidOptionError("client", "is not an AWS SDK client; create it with new DynamoDBClient({ … })");
  }
  if (streamsClient !== undefined && typeof streamsClient?.send !== "function") {
    throw new InvalidOptionError(
      "streamsClient",
      "is not an AWS SDK client; create it with new DynamoDBStreamsClient({ … })",
    );
  }
  for (const field of ["region", "endpoint"] as const) {
    if (client !== undefined && given[field] !== undefined)
      throw new InvalidOptionError(field, "cannot be combined with client; configure it on the client");
  }
  if (region !== undefined && !/^[a-z]{2,}(?:-[a-z0-9]+)+$/.test(region)) {
    throw new InvalidOptionError("region", `${show(region)} is not an AWS region such as eu-central-1`);
  }
  if (endpoint !== undefined && !(URL.canParse(endpoint) && /^https?:\/\//.test(endpoint))) {
    throw new InvalidOptionError(
      "endpoint",
      `${show(hideSecret(String(endpoint)))} is not a valid URL (expected e.g. http://localhost:8000)`,
    );
  }
  const shards = given.shards === undefined ? null : readCount(given.shards, "shards", 1, MAX_SHARDS);
  const marginMs = readCount(given.marginMs ?? 1_000, "marginMs", 0, 60_000);
  const requests = readCount(given.requests ?? 64, "requests", 1, 10_000);
  const requestTimeoutMs = readCount(given.requestTimeoutMs ?? REQUEST_TIMEOUT_MS, "requestTimeoutMs", 100, 60_000);
  const slack = given.slack ?? 1;
  if (typeof slack !== "number" || !(slack >= 0 && slack <= 1))
    throw new InvalidOptionError("slack", `${show(slack)} must be a number from 0 to 1`);
  const stream = given.stream ?? null;
  if (stream !== null && typeof stream !== "boolean")
    throw new InvalidOptionError("stream", `${show(stream)} must be true or false`);
  return {
    ...(client !== undefined && { client }),
    ...(streamsClient !== undefined && { streamsClient }),
    ...(region !== undefined && { region }),
    ...(endpoint !== undefined && { endpoint }),
    name,
    shards,
    marginMs,
    requests,
    requestTimeoutMs,
    slack,
    stream,
  };
}

const STRING_FIELDS: readonly string[] = ["region", "endpoint"];
const FLAG_FIELDS: readonly string[] = ["stream"];
const FLAGS: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["false", false],
]);
const URL_FIELDS: readonly string[] = [
  ...STRING_FIELDS,
  "shards",
  "marginMs",
  "slack",
  "requests",
  "requestTimeoutMs",
  ...FLAG_FIELDS,
];

/** `dynamodb://table?region=eu-central-1&shards=8`. */
export function readDynamoUrl(url: string): DynamoOptions {
  const parts = /^dynamodb:(?:\/\/)?([^?]*)(?:\?(.*))?$/s.exec(url);
  if (parts === null) {
    throw new InvalidOptionError(
      "store",
      `${show(hideSecret(url))} is not a valid URL of a table (expected e.g. dynamodb://jobs?region=eu-central-1)`,
    );
  }
  const [, table = "", query = ""] = parts;
  // readDynamoOptions validates the name.
  const options: Record<string, unknown> = table === "" ? {} : { table };
  for (const [name, value] of new URLSearchParams(query)) {
    if (!URL_FIELDS.includes(name))
      throw new InvalidOptionError("store", `${show(name)} in the URL is none of ${URL_FIELDS.join(", ")}`);
    if (name in options) throw new InvalidOptionError("store", `${name} is in the URL twice`);
    if (FLAG_FIELDS.includes(name)) {
      options[name] = FLAGS.get(value) ?? value;
      continue;
    }
    const isNumber = /^[\d.]+$/.test(value);
    options[name] = isNumber && !STRING_FIELDS.includes(name) ? Number(value) : value;
  }
  return options;
}
