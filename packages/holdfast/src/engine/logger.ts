import { clean } from "../terminal-text.js";

/** Anything pino-shaped: an object of fields first, then a sentence. */
export interface Logger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export const silentLogger: Logger = { info() {}, warn() {}, error() {} };

/** The default: warnings and errors on stderr, one line each; nothing for what goes well. */
export const stderrLogger: Logger = {
  info() {},
  warn: (fields, message) => write("warn", fields, message),
  error: (fields, message) => write("error", fields, message),
};

function write(level: string, fields: object, message: string): void {
  const details = Object.entries(fields).map(([key, value]) => `${key}=${show(value)}`);
  process.stderr.write(`${clean(`holdfast ${level}: ${[message, ...details].join(" ")}`)}\n`);
}

function show(value: unknown): string {
  if (value instanceof Error) return JSON.stringify(value.message);
  return typeof value === "string" && /^[\w.:/-]+$/.test(value) ? value : (JSON.stringify(value) ?? String(value));
}
