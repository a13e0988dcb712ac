import type { Kind, ValueOf } from "./kind.js";

/**
 * All keys of the configuration. Validation, variable names, the flags' help, `holdfast config list` and the table of
 * docs/guides/configuration.md use this table.
 *
 * A default of `null` means not set. `secret`: may contain a password. Paths are relative to the configuration file.
 */
export const KEYS = {
  store: {
    kind: "text",
    form: "store",
    default: "sqlite:holdfast.db",
    secret: true,
    description: "The store of the jobs, such as sqlite:jobs.db, postgres://… or dynamodb://jobs.",
  },
  "jobs.enabled": {
    kind: "switch",
    default: true,
    description: "If false, no command starts a worker or a scheduler.",
  },
  "jobs.concurrency": {
    kind: "count",
    min: 1,
    max: 64,
    default: 4,
    description: "Jobs that a worker runs concurrently.",
  },
  "jobs.poll_interval_ms": {
    kind: "count",
    min: 100,
    max: 60_000,
    default: 1_000,
    description: "How often a worker polls for jobs when nothing wakes it, in milliseconds.",
  },
  "jobs.lease_duration_s": {
    kind: "count",
    min: 30,
    max: 3_600,
    default: 30,
    description: "How long a lease lasts unless it is extended, in seconds.",
  },
  "jobs.max_retries": {
    kind: "count",
    min: 0,
    max: 100,
    default: 3,
    description: "Retries after the first attempt, for job types that do not set their own.",
  },
  "jobs.scheduler_enabled": { kind: "switch", default: true, description: "If false, workers do not fire schedules." },
  "jobs.scheduler_tick_s": {
    kind: "count",
    min: 5,
    max: 3_600,
    default: 5,
    description: "How often the scheduler polls unless a slot is due earlier, in seconds.",
  },
  "jobs.grace_s": {
    kind: "count",
    min: 0,
    max: 3_600,
    default: 30,
    description: "How long a stopping worker waits for handlers before it aborts their signals, in seconds.",
  },
  "jobs.queues": {
    kind: "names",
    form: "queue",
    default: null,
    description: "The queues that a worker serves; all queues if not set.",
  },
  "jobs.module": {
    kind: "text",
    form: "module",
    default: null,
    path: true,
    description: "The module that exports the job types.",
  },
  "retry.base": { kind: "duration", default: "30s", description: "The delay before the first retry." },
  "retry.factor": {
    kind: "number",
    min: 1,
    max: 1_000,
    default: 2,
    description: "Each delay is this many times the previous one.",
  },
  "retry.max": { kind: "duration", default: "15m", description: "The longest delay." },
  "retry.jitter": {
    kind: "jitter",
    default: 0.1,
    description: "Random variation of the delay: a fraction (0.1 is ±10 %), or a duration (1s adds up to one second).",
  },
  "retention.completed": {
    kind: "duration",
    forever: true,
    default: "7d",
    description: "How long completed jobs are kept.",
  },
  "retention.dead": { kind: "duration", forever: true, default: "30d", description: "How long dead jobs are kept." },
  "retention.cancelled": {
    kind: "duration",
    forever: true,
    default: "7d",
    description: "How long cancelled jobs are kept.",
  },
  "retention.audit": {
    kind: "duration",
    forever: true,
    default: "90d",
    description: "How long audit entries are kept.",
  },
  "server.host": {
    kind: "text",
    form: "host",
    default: "127.0.0.1",
    description: "The address that the server listens on.",
  },
  "server.port": {
    kind: "count",
    min: 0,
    max: 65_535,
    default: 7_700,
    description: "The port that the server listens on; 0 chooses a free port.",
  },
  "server.base_path": {
    kind: "text",
    form: "base path",
    default: null,
    description: "The path under which a proxy serves the API, such as /ops. Used for cookies.",
  },
  "server.caller_streams": {
    kind: "count",
    min: 1,
    max: 200,
    default: 20,
    description: "Event streams that one caller may have open.",
  },
  "server.max_lanes": {
    kind: "count",
    min: 1,
    max: 1_000_000,
    default: 10_000,
    description: "Lanes (a queue with a priority) above which API callers cannot create new ones.",
  },
  "auth.session_ttl": {
    kind: "duration",
    min: "1m",
    max: "30d",
    default: "12h",
    description: "How long a browser session lasts.",
  },
  "auth.login_attempts": {
    kind: "count",
    min: 1,
    max: 1_000,
    default: 10,
    description: "Invalid tokens allowed per client address per minute.",
  },
  "redact.paths": {
    kind: "names",
    form: "redaction",
    default: null,
    description: "Fields to hide of inputs, outputs, progress and errors, as dotted paths such as input.user.email.",
  },
  "log.level": {
    kind: "choice",
    choices: ["error", "warn", "info", "debug", "silent"],
    default: "info",
    description: "The least severe level that is logged. With debug, every job is logged, as in holdfast dev.",
  },
  "log.format": {
    kind: "choice",
    choices: ["text", "json"],
    default: "text",
    description:
      "The format of log lines: text, or one JSON object per line for all output of worker, dev, serve and process.",
  },
} as const;

/** The name of a key, such as `jobs.concurrency`. */
export type KeyName = keyof typeof KEYS;

/** Any key of the table. */
export type Key = Kind & {
  readonly default: unknown;
  readonly description: string;
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

/** The definition of a key. */
export function keyOf(name: KeyName): Key {
  return KEYS[name];
}

/** Whether a key with this name exists. */
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

/** The variable with the secret that signs sessions. There is no key for it, because it must not be in a file. */
export const SECRET_VARIABLE = "HOLDFAST_SESSION_SECRET";

/** The variable with the URL of the server that commands call instead of the store. */
export const URL_VARIABLE = "HOLDFAST_URL";

/**
 * Variables that are not keys: the path of the file, server and token for commands, the session secret, and a mark for children of
 * `dev`.
 */
export const OTHER_VARIABLES: readonly string[] = [
  "HOLDFAST_CONFIG",
  URL_VARIABLE,
  "HOLDFAST_TOKEN",
  SECRET_VARIABLE,
  "HOLDFAST_DEV_CHILD",
];
