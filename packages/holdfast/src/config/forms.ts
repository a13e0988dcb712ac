import { extname } from "node:path";
import { BASE_PATH, readBasePath } from "../base-path.js";
import { LIMITS } from "../defaults.js";
import { InvalidOptionError, UnknownStoreError } from "../errors.js";
import { isHost } from "../host.js";
import { readQueue, show } from "../options.js";
import { redactor } from "../redact.js";
import { storeKindOf } from "../store-address.js";
import { readDynamoOptions, readDynamoUrl } from "../stores/dynamodb/connection/options.js";
import { readPostgresUrl, readSchemaName } from "../stores/postgres/connection/address.js";
import { readSqliteFile } from "../stores/sqlite/file-path.js";
import { TIME_DESCRIPTIONS, typedTimeMs, type TypedTime } from "./typed-time.js";

/** A format that a string must have. */
export interface Form {
  /** A description that completes "is not …". */
  readonly is: string;
  /** The same in the plural. */
  readonly are: string;
  /** What is wrong with a string, to follow it in a message; null if it is valid. */
  readonly problem: (text: string) => string | null;
}

/** The name of a format. */
export type FormName = "store" | "queue" | "module" | "host" | "base path" | "redaction" | TypedTime;

/** Allowed extensions of a jobs module. */
export const MODULE_ENDINGS: readonly string[] = [".ts", ".mts", ".js", ".mjs"];

const STORE = "a URL such as sqlite:jobs.db, postgres://… or dynamodb://jobs";
const MODULE = `a path that ends in ${MODULE_ENDINGS.join(", ")}`;
const HOST = "a host name or IP address";

/**
 * All formats. Each uses the function that reads the option later, so that a value accepted here is also accepted there.
 */
export const FORMS: Readonly<Record<FormName, Form>> = {
  store: { is: STORE, are: "store URLs", problem: problemOfStore },
  queue: {
    is: `a name of at most ${LIMITS.queueLength} characters`,
    are: `names of at most ${LIMITS.queueLength} characters each`,
    problem: (text) => problemOf(text, (name) => readQueue(name)),
  },
  module: {
    is: MODULE,
    are: "paths of modules",
    problem: (text) => (MODULE_ENDINGS.includes(extname(text)) ? null : `is not ${MODULE}`),
  },
  host: { is: HOST, are: "hosts", problem: (text) => (isHost(text) ? null : `is not ${HOST}`) },
  "base path": { is: BASE_PATH, are: "paths", problem: (text) => problemOf(text, readBasePath) },
  redaction: {
    is: "a path such as input.user.email",
    are: "paths such as input.user.email",
    problem: (text) => problemOf(text, (path) => redactor([path])),
  },
  instant: timeForm("instant"),
  past: timeForm("past"),
  future: timeForm("future"),
};

function timeForm(time: TypedTime): Form {
  return {
    is: TIME_DESCRIPTIONS[time],
    are: "times",
    problem: (text) => problemOf(text, () => typedTimeMs(text, time)),
  };
}

/** The error of an option's reader for this string; null if it is accepted. */
function problemOf(text: string, read: (text: string) => unknown): string | null {
  try {
    read(text);
    return null;
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    // Without the option's name, which the user did not type, and without the value, which the caller prints before it.
    const shown = `${show(text)} `;
    return error.problem.startsWith(shown) ? error.problem.slice(shown.length) : error.problem;
  }
}

/** A URL has several parts, so the message names the part that is wrong. */
function problemOfStore(text: string): string | null {
  try {
    readStore(text);
    return null;
  } catch (error) {
    if (error instanceof UnknownStoreError) return `is not ${STORE}${meantStore(text)}`;
    if (!(error instanceof InvalidOptionError)) throw error;
    return `cannot be used: ${error.field === "store" ? error.problem : error.message}`;
  }
}

/** Suggests a URL for the path of a SQLite file. A string with a colon or @ may contain a password, so it is not repeated. */
function meantStore(text: string): string {
  const isFile = text === ":memory:" || /^[^:@?#\s]*[./\\][^:@?#\s]*$/.test(text);
  return isFile ? `; did you mean sqlite:${text}?` : "";
}

/** Checks the URL itself, not whether the database exists. */
function readStore(url: string): void {
  switch (storeKindOf(url)) {
    case "sqlite":
      readSqliteFile(url.slice("sqlite:".length));
      return;
    case "postgres": {
      const { schema } = readPostgresUrl(url);
      if (schema !== null) readSchemaName(schema);
      return;
    }
    case "dynamodb":
      readDynamoOptions(readDynamoUrl(url));
  }
}
