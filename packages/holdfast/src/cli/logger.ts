import type { Logger } from "../engine/logger.js";
import { clean, jsonText } from "../terminal-text.js";

/** What is logged: this and what is more severe. */
export type LogLevel = "error" | "warn" | "info" | "debug" | "silent";

const SEVERITY = { silent: 0, error: 1, warn: 2, info: 3, debug: 4 } as const;

/** How a log is written. */
export interface LogOptions {
  readonly level: LogLevel;
  /** For people, or one JSON object a line. */
  readonly format: "text" | "json";
  readonly write: (line: string) => void;
  readonly now: () => Date;
}

/** The log of `holdfast worker` and its like, as `log.level` and `log.format` say. Nothing in it acts on a terminal. */
export function createLogger({ level, format, write, now }: LogOptions): Logger {
  const at = (of: "error" | "warn" | "info") => {
    if (SEVERITY[of] > SEVERITY[level]) return () => {};
    return (fields: object, message: string): void => {
      const time = now().toISOString();
      write(`${format === "json" ? jsonLine(time, of, fields, message) : textLine(time, of, fields, message)}\n`);
    };
  };
  return { info: at("info"), warn: at("warn"), error: at("error") };
}

/** A logger of somebody else's. A line that it throws at goes to the other log, with why: a log must not end what it tells of. */
export function fallingBackTo(other: Logger, given: Logger): Logger {
  const at =
    (of: keyof Logger) =>
    (fields: object, message: string): void => {
      try {
        given[of](fields, message);
      } catch (error) {
        other[of](fields, message);
        other.error({ error }, "the module's logger threw");
      }
    };
  return { info: at("info"), warn: at("warn"), error: at("error") };
}

function jsonLine(time: string, level: string, fields: object, message: string): string {
  const plain = Object.entries(fields).map(([name, value]) => [name, plainError(value)]);
  return jsonText({ time, level, message, ...Object.fromEntries(plain) }, 0);
}

/** An Error has no fields that JSON would write. */
function plainError(value: unknown): unknown {
  if (!(value instanceof Error)) return value;
  const { name, message, stack } = value;
  return { name, message, code: (value as { code?: unknown }).code, stack };
}

function textLine(time: string, level: string, fields: object, message: string): string {
  const details = Object.entries(fields).map(([name, value]) => `${name}=${show(value)}`);
  return clean([time, level.padEnd(5), message, ...details].join(" "));
}

function show(value: unknown): string {
  if (value instanceof Error) return JSON.stringify(value.message);
  return typeof value === "string" && /^[\w.:/-]+$/.test(value) ? value : (JSON.stringify(value) ?? String(value));
}
