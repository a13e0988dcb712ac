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
import { TIME_WORDS, typedTimeMs, type TypedTime } from "./typed-time.js";

/** What a text may be, beyond any text. */
export interface Form {
  /** In words that follow "is". */
  readonly is: string;
  /** Several of it. */
  readonly are: string;
  /** What is wrong with a text, in words that follow it; null if nothing is. */
  readonly against: (text: string) => string | null;
}

/** The name of a form. */
export type FormName = "store" | "queue" | "module" | "host" | "base path" | "redaction" | TypedTime;

/** How the name of a module of jobs may end. */
export const MODULE_ENDINGS: readonly string[] = [".ts", ".mts", ".js", ".mjs"];

const STORE = "an address such as sqlite:jobs.db, postgres://… or dynamodb://jobs";
const MODULE = `a path that ends in ${MODULE_ENDINGS.join(", ")}`;
const HOST = "the name or the IP address of a host";

/**
 * Every form. Each asks the function that reads the option later: what this lets through must not stop the command that
 * comes to use it.
 */
export const FORMS: Readonly<Record<FormName, Form>> = {
  store: { is: STORE, are: "addresses of stores", against: againstStore },
  queue: {
    is: `a name of at most ${LIMITS.queueLength} characters`,
    are: `names of at most ${LIMITS.queueLength} characters each`,
    against: (text) => refusal(text, (name) => readQueue(name)),
  },
  module: {
    is: MODULE,
    are: "paths of modules",
    against: (text) => (MODULE_ENDINGS.includes(extname(text)) ? null : `is not ${MODULE}`),
  },
  host: { is: HOST, are: "hosts", against: (text) => (isHost(text) ? null : `is not ${HOST}`) },
  "base path": { is: BASE_PATH, are: "paths", against: (text) => refusal(text, readBasePath) },
  redaction: {
    is: "a path such as input.user.email",
    are: "paths such as input.user.email",
    against: (text) => refusal(text, (path) => redactor([path])),
  },
  instant: timeForm("instant"),
  past: timeForm("past"),
  future: timeForm("future"),
};

function timeForm(time: TypedTime): Form {
  return { is: TIME_WORDS[time], are: "times", against: (text) => refusal(text, () => typedTimeMs(text, time)) };
}

/** What a reader of options has against a text. */
function refusal(text: string, read: (text: string) => unknown): string | null {
  try {
    read(text);
    return null;
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    // Without the option's name, which nobody has written here, and without the text, which stands before.
    const problem = error.message.slice(`${error.field}: `.length);
    const shown = `${show(text)} `;
    return problem.startsWith(shown) ? problem.slice(shown.length) : problem;
  }
}

/** An address has parts, and what is wrong with one of them is told by its name. */
function againstStore(text: string): string | null {
  try {
    readStore(text);
    return null;
  } catch (error) {
    if (error instanceof UnknownStoreError) return `is not ${STORE}`;
    if (!(error instanceof InvalidOptionError)) throw error;
    return `cannot be used: ${error.message.replace(/^store: /, "")}`;
  }
}

/** All that an address itself says; whether there is such a database is found out when it is opened. */
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
