import type { Clock } from "../../../clock.js";
import { InvalidOptionError } from "../../../errors.js";
import { readCount, refuseUnknown, show } from "../../../options.js";
import { hideSecret } from "../../../access/secret.js";
import type { DynamoClient } from "./table.js";

export interface DynamoOptions {
  /** Your own `DynamoDBClient` of the AWS SDK. Left out: one of our own. */
  client?: DynamoClient;
  /** The table. Default `holdfast`. */
  table?: string;
  /** For a client of our own. Left out: as the environment says. */
  region?: string;
  /** Address of another DynamoDB than AWS's, for a client of our own. */
  endpoint?: string;
  /**
   * Parts that each queue is split into: one for every 250 jobs a second. Can be raised at any time.
   * Left out: as many as the table has; a new one gets 8.
   */
  shards?: number;
  /** How far the clocks of different machines may be apart. Default 1 s. */
  marginMs?: number;
  /**
   * How far ahead of a lease's end its entry in the index is moved, in leases: the further, the cheaper a long job and the
   * later a lost one is found. Default 1.
   */
  slack?: number;
  /** Requests under way at a time. Default 64. */
  requests?: number;
  /** How long a request may go without an answer before it is given up and sent again. Default 5 s. */
  answerMs?: number;
  /** For tests. Left out: DynamoDB's own time, as its answers tell it. */
  clock?: Clock;
}

const FIELDS: ReadonlySet<string> = new Set([
  "client",
  "table",
  "region",
  "endpoint",
  "shards",
  "marginMs",
  "slack",
  "requests",
  "answerMs",
  "clock",
]);
const MOST_SHARDS = 1_000;
const ANSWER_MS = 5_000;

/** The options, checked, with what is left out filled in. */
export interface DynamoSettings extends Pick<DynamoOptions, "client" | "region" | "endpoint"> {
  /** Of the table. */
  name: string;
  shards: number | null;
  marginMs: number;
  requests: number;
  answerMs: number;
  slack: number;
}

/** Reads the options. Nothing is connected to, and no driver is loaded. */
export function readDynamoOptions(given: DynamoOptions): DynamoSettings {
  refuseUnknown(given, FIELDS, "dynamodb");
  const { client, region, endpoint } = given;
  const name = given.table ?? "holdfast";
  if (typeof name !== "string" || !/^[\w.-]{3,255}$/.test(name)) {
    throw new InvalidOptionError(
      "table",
      `${show(hideSecret(name))} is no name of a table: 3 to 255 of a-z, A-Z, 0-9, _ - .`,
    );
  }
  if (client !== undefined && typeof client?.send !== "function") {
    throw new InvalidOptionError("client", "is not a client of the AWS SDK; make it with new DynamoDBClient({ … })");
  }
  for (const field of ["region", "endpoint"] as const) {
    if (client !== undefined && given[field] !== undefined)
      throw new InvalidOptionError(field, "belongs to a client of our own; the one that was given has its own");
  }
  if (region !== undefined && !/^[a-z]{2,}(?:-[a-z0-9]+)+$/.test(region)) {
    throw new InvalidOptionError("region", `${show(region)} is no name of a region, such as eu-central-1`);
  }
  if (endpoint !== undefined && !(URL.canParse(endpoint) && /^https?:\/\//.test(endpoint))) {
    throw new InvalidOptionError(
      "endpoint",
      `${show(hideSecret(String(endpoint)))} is no address, such as http://localhost:8000`,
    );
  }
  const shards = given.shards === undefined ? null : readCount(given.shards, "shards", 1, MOST_SHARDS);
  const marginMs = readCount(given.marginMs ?? 1_000, "marginMs", 0, 60_000);
  const requests = readCount(given.requests ?? 64, "requests", 1, 10_000);
  const answerMs = readCount(given.answerMs ?? ANSWER_MS, "answerMs", 100, 60_000);
  const slack = given.slack ?? 1;
  if (typeof slack !== "number" || !(slack >= 0 && slack <= 1))
    throw new InvalidOptionError("slack", `${show(slack)} is not from 0 to 1`);
  return {
    ...(client !== undefined && { client }),
    ...(region !== undefined && { region }),
    ...(endpoint !== undefined && { endpoint }),
    name,
    shards,
    marginMs,
    requests,
    answerMs,
    slack,
  };
}

const TEXT_FIELDS: readonly string[] = ["region", "endpoint"];
const URL_FIELDS: readonly string[] = [...TEXT_FIELDS, "shards", "marginMs", "slack", "requests", "answerMs"];

/** `dynamodb://table?region=eu-central-1&shards=8`. */
export function readDynamoUrl(url: string): DynamoOptions {
  const parts = /^dynamodb:(?:\/\/)?([^?]*)(?:\?(.*))?$/s.exec(url);
  if (parts === null) {
    throw new InvalidOptionError(
      "store",
      `${show(hideSecret(url))} is no address of a table; write dynamodb://jobs?region=eu-central-1`,
    );
  }
  const [, table = "", query = ""] = parts;
  // A name that is not one is refused with the other options.
  const options: Record<string, unknown> = table === "" ? {} : { table };
  for (const [name, value] of new URLSearchParams(query)) {
    if (!URL_FIELDS.includes(name))
      throw new InvalidOptionError("store", `${show(name)} in the URL is none of ${URL_FIELDS.join(", ")}`);
    if (name in options) throw new InvalidOptionError("store", `${name} is in the URL twice`);
    const isNumber = /^[\d.]+$/.test(value);
    options[name] = isNumber && !TEXT_FIELDS.includes(name) ? Number(value) : value;
  }
  return options;
}
