import { callSafely } from "../../callbacks.js";
import { clean } from "../../terminal-text.js";
import { isErrorLike, messageOf } from "../../job/thrown.js";

/** Anything pino-shaped: an object of fields first, then a sentence. What it throws, or rejects with, goes to stderr. */
export interface Logger {
  info(fields: object, message: string): unknown;
  warn(fields: object, message: string): unknown;
  error(fields: object, message: string): unknown;
}

export const silentLogger: Logger = { info() {}, warn() {}, error() {} };

/** The default: warnings and errors on stderr, one line each; nothing for what goes well. */
export const stderrLogger: Logger = {
  info() {},
  warn: (fields, message) => write("warn", fields, message),
  error: (fields, message) => write("error", fields, message),
};

/** Never throws: it is where everything goes that cannot be written elsewhere. */
function write(level: string, fields: object, message: string): void {
  try {
    process.stderr.write(`${clean(`holdfast ${level}: ${[message, ...showFields(fields)].join(" ")}`)}\n`);
  } catch {
    // Nothing is left to write to.
  }
}

/** Fields as `name=value`, for lines that people read. Never throws: a value may be anything that a handler threw. */
export function showFields(fields: object): string[] {
  return Object.entries(fields).map(([name, value]) => `${name}=${showField(value)}`);
}

function showField(value: unknown): string {
  const text = isErrorLike(value) ? messageOf(value) : value;
  if (typeof text !== "string") return messageOf(text);
  return text !== value || !/^[\w.:/-]+$/.test(text) ? JSON.stringify(text) : text;
}

/**
 * The user's logger, made safe to call: what it cannot write goes to `fallback`, which must not throw, and why it could not is
 * logged there once.
 */
export function safeLogger(given: Logger, fallback: Logger = stderrLogger): Logger {
  let isReported = false;
  const at =
    (level: keyof Logger) =>
    (fields: object, message: string): void =>
      callSafely(
        () => given[level](fields, message),
        (error) => {
          fallback[level](fields, message);
          if (isReported) return;
          isReported = true;
          fallback.error({ error }, "the logger failed; what it cannot write goes here");
        },
      );
  return { info: at("info"), warn: at("warn"), error: at("error") };
}
