import { showFields, type Logger } from "../../engine/events/logger.js";
import { clean, jsonText } from "../../terminal-text.js";
import { codeOf, isErrorLike, messageOf, nameOf, stackOf } from "../../job/thrown.js";

/** The lowest severity that is logged. */
export type LogLevel = "error" | "warn" | "info" | "debug" | "silent";

const SEVERITY = { silent: 0, error: 1, warn: 2, info: 3, debug: 4 } as const;

/** Options of a log. */
export interface LogOptions {
  readonly level: LogLevel;
  /** Text for people, or one JSON object per line. */
  readonly format: "text" | "json";
  readonly write: (line: string) => void;
  readonly now: () => Date;
}

/** The log of `holdfast worker` and other services. Control characters are escaped, so that no job can act on the terminal. */
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

/** Never throws, although a field may be anything that a handler threw. */
function jsonLine(time: string, level: string, fields: object, message: string): string {
  const plain = Object.entries(fields).map(([name, value]) => [name, isErrorLike(value) ? plainError(value) : value]);
  const line = { time, level, message };
  try {
    return jsonText({ ...line, ...Object.fromEntries(plain) }, 0);
  } catch {
    // A cycle, a BigInt or a toJSON that throws.
    const shown = plain.map(([name, value]) => [name, messageOf(value)]);
    return jsonText({ ...line, ...Object.fromEntries(shown) }, 0);
  }
}

/** The fields of an error are not enumerable, so JSON would omit them. */
function plainError(error: object): object {
  return {
    name: nameOf(error),
    message: messageOf(error),
    code: codeOf(error) ?? undefined,
    stack: stackOf(error) ?? undefined,
  };
}

function textLine(time: string, level: string, fields: object, message: string): string {
  return clean([time, level.padEnd(5), message, ...showFields(fields)].join(" "));
}
