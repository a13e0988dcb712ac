import { callSafely } from "../../callbacks.js";
import { clean } from "../../terminal-text.js";
import { isErrorLike, messageOf } from "../../job/thrown.js";

/** Any pino-shaped logger: fields first, then the message. If it throws or rejects, the line goes to stderr. */
export interface Logger {
  info(fields: object, message: string): unknown;
  warn(fields: object, message: string): unknown;
  error(fields: object, message: string): unknown;
}

export const silentLogger: Logger = { info() {}, warn() {}, error() {} };

/** The default: warnings and errors on stderr, one line each. */
export const stderrLogger: Logger = {
  info() {},
  warn: (fields, message) => write("warn", fields, message),
  error: (fields, message) => write("error", fields, message),
};

/** Never throws: it is the last resort for lines that cannot be written elsewhere. */
function write(level: string, fields: object, message: string): void {
  try {
    process.stderr.write(`${clean(`holdfast ${level}: ${[message, ...showFields(fields)].join(" ")}`)}\n`);
  } catch {
    // There is nowhere else to write.
  }
}

/** Fields as `name=value`. Never throws, although a value can be anything that a handler threw. */
export function showFields(fields: object): string[] {
  return Object.entries(fields).map(([name, value]) => `${name}=${showField(value)}`);
}

function showField(value: unknown): string {
  const text = isErrorLike(value) ? messageOf(value) : value;
  if (typeof text !== "string") return messageOf(text);
  return text !== value || !/^[\w.:/-]+$/.test(text) ? JSON.stringify(text) : text;
}

/**
 * The given logger, made safe to call: a line that it fails to write goes to `fallback`, which must not throw. The logger's error is
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
          fallback.error({ error }, "the logger failed; its lines are written here");
        },
      );
  return { info: at("info"), warn: at("warn"), error: at("error") };
}
