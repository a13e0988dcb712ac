import type { Kind, ValueOf } from "./kind.js";

/**
 * Every key of the configuration. All else follows from this table: what is read and refused, the variables' names, the
 * flags' help, `holdfast config list`, and the table of docs/guides/configuration.md.
 *
 * `null` as a default: not set. `secret`: may hold a password. Paths are relative to the file that they stand in.
 */
export const KEYS = {
  store: {
    kind: "text",
    form: "store",
    default: "sqlite:holdfast.db",
    secret: true,
    says: "Where jobs are kept, such as sqlite:jobs.db, postgres://… or dynamodb://jobs.",
  },
  "jobs.enabled": { kind: "switch", default: true, says: "Off: no worker and no scheduler is started by any command." },
  "jobs.concurrency": { kind: "count", least: 1, most: 64, default: 4, says: "Handlers at once in a worker." },
  "jobs.poll_interval_ms": {
    kind: "count",
    least: 100,
    most: 60_000,
    default: 1_000,
    says: "How often a worker looks for jobs when nothing wakes it, in milliseconds.",
  },
  "jobs.lease_duration_s": {
    kind: "count",
    least: 30,
    most: 3_600,
    default: 30,
    says: "How long a claim holds a job unless it is extended, in seconds.",
  },
  "jobs.max_retries": {
    kind: "count",
    least: 0,
    most: 100,
    default: 3,
    says: "Retries after the first attempt, for job types that set none.",
  },
  "jobs.scheduler_enabled": { kind: "switch", default: true, says: "Off: a worker fires no schedules." },
  "jobs.scheduler_tick_s": {
    kind: "count",
    least: 5,
    most: 3_600,
    default: 5,
    says: "How often the scheduler looks when it knows of no nearer slot, in seconds.",
  },
  "jobs.grace_s": {
    kind: "count",
    least: 0,
    most: 3_600,
    default: 30,
    says: "How long a stop waits for handlers before it fires their signals, in seconds.",
  },
  "jobs.queues": {
    kind: "names",
    form: "queue",
    default: null,
    says: "The queues that a worker takes from; all if none is named.",
  },
  "jobs.module": {
    kind: "text",
    form: "module",
    default: null,
    path: true,
    says: "The module that exports the job types.",
  },
  "retry.base": { kind: "duration", default: "30s", says: "The delay before the first retry." },
  "retry.factor": {
    kind: "number",
    least: 1,
    most: 1_000,
    default: 2,
    says: "Each delay is this many times the one before.",
  },
  "retry.max": { kind: "duration", default: "15m", says: "No delay is longer." },
  "retry.jitter": {
    kind: "jitter",
    default: 0.1,
    says: "A share of the delay, spread both ways, or a duration of which up to all is added.",
  },
  "retention.completed": {
    kind: "duration",
    forever: true,
    default: "7d",
    says: "How long completed jobs are kept.",
  },
  "retention.dead": { kind: "duration", forever: true, default: "30d", says: "How long dead jobs are kept." },
  "retention.cancelled": { kind: "duration", forever: true, default: "7d", says: "How long cancelled jobs are kept." },
  "retention.audit": {
    kind: "duration",
    forever: true,
    default: "90d",
    says: "How long the audit log's entries are kept.",
  },
  "server.host": { kind: "text", form: "host", default: "127.0.0.1", says: "The address that the server listens on." },
  "server.port": {
    kind: "count",
    least: 0,
    most: 65_535,
    default: 7_700,
    says: "The port that the server listens on; 0 takes any that is free.",
  },
  "server.base_path": {
    kind: "text",
    form: "base path",
    default: null,
    says: "The path that a proxy serves it below, such as /ops, for cookies.",
  },
  "server.caller_viewers": {
    kind: "count",
    least: 1,
    most: 200,
    default: 20,
    says: "Streams of events that one caller may read at once.",
  },
  "server.max_lanes": {
    kind: "count",
    least: 1,
    most: 1_000_000,
    default: 10_000,
    says: "Queues, counted with each of their priorities, up to which callers of the API may make another one.",
  },
  "auth.session_ttl": {
    kind: "duration",
    least: "1m",
    most: "30d",
    default: "12h",
    says: "How long a session of a browser lasts.",
  },
  "auth.login_attempts": {
    kind: "count",
    least: 1,
    most: 1_000,
    default: 10,
    says: "Tokens that are not valid which an address may send in a minute, until only right ones are looked at from there.",
  },
  "redact.paths": {
    kind: "names",
    form: "redaction",
    default: null,
    says: "Fields of inputs and outputs that are never shown, as dotted paths: input.user.email.",
  },
  "log.level": {
    kind: "choice",
    choices: ["error", "warn", "info", "debug", "silent"],
    default: "info",
    says: "What is logged: this and what is more severe. With debug each job too, as holdfast dev does.",
  },
  "log.format": {
    kind: "choice",
    choices: ["text", "json"],
    default: "text",
    says: "How lines of the log look: for people, or one JSON object each; then all that worker, dev, serve and process say once the configuration is read, unless with --json.",
  },
} as const;

/** The name of a key, such as `jobs.concurrency`. */
export type KeyName = keyof typeof KEYS;

/** A key as the table has it, whichever it is. */
export type Key = Kind & {
  readonly default: unknown;
  readonly says: string;
  readonly secret?: true;
  readonly path?: true;
};

/** The value of each key. */
export type Values = {
  readonly [Name in KeyName]:
    | ValueOf<(typeof KEYS)[Name]>
    | ((typeof KEYS)[Name]["default"] extends null ? null : never);
};

/** In the order of the table. */
export const KEY_NAMES: readonly KeyName[] = Object.keys(KEYS) as KeyName[];

/** What the table says of a key. */
export function keyOf(name: KeyName): Key {
  return KEYS[name];
}

/** Is there a key of this name? */
export function isKey(name: string): name is KeyName {
  return Object.hasOwn(KEYS, name);
}

/** The sections of the file, such as `jobs`. */
export const SECTIONS: readonly string[] = [
  ...new Set(KEY_NAMES.filter((name) => name.includes(".")).map((name) => name.slice(0, name.indexOf(".")))),
];

/** The variable that sets a key: `HOLDFAST_JOBS_CONCURRENCY` for `jobs.concurrency`. */
export function variableOf(name: KeyName): string {
  return `HOLDFAST_${name.replaceAll(".", "_").toUpperCase()}`;
}

/** The variable with what signs sessions. It is no key: it shall stand in no file. */
export const SECRET_VARIABLE = "HOLDFAST_SESSION_SECRET";

/** Variables that set no key: the file's path, the server and token that commands use, what signs sessions, and whether `dev` started us. */
export const OTHER_VARIABLES: readonly string[] = [
  "HOLDFAST_CONFIG",
  "HOLDFAST_URL",
  "HOLDFAST_TOKEN",
  SECRET_VARIABLE,
  "HOLDFAST_DEV_CHILD",
];
