import type { Logger } from "../../engine/events/logger.js";
import { CommandError } from "../errors.js";
import { startProgress, type Progress } from "./progress.js";
import { startScreen } from "./screen.js";
import { coloured, paint, textOf, type Part } from "./style.js";
import { tableLines, type Column } from "./table.js";
import type { Terminal } from "./terminal.js";
import { cleanBlock, jsonText } from "../../terminal-text.js";

/** A stream that is written to. */
export interface Sink {
  write(text: string): void;
  /** Width of the terminal; null if the stream is not a terminal. */
  readonly terminalWidth: () => number | null;
  /** Null if the cursor cannot be moved: a file, a pipe, a dumb terminal. */
  readonly terminal: Terminal | null;
}

/** Writes a result for people. Control characters in strings are escaped. */
export interface TextWriter {
  /** One line. */
  line(...parts: readonly Part[]): void;
  /** A string with line breaks. */
  block(text: string): void;
  /** A table. Fitted to the width of a terminal; not cut in a file or pipe. */
  table(columns: readonly Column[], rows: readonly (readonly Part[])[]): void;
  /** Names and values, one pair per line. */
  fields(pairs: readonly (readonly [name: string, ...value: readonly Part[]])[]): void;
}

/** Pages that replace each other on a terminal. Elsewhere each is an event. */
export interface Frames {
  /** `rows`: the height of the terminal; null if pages are written one after the other. */
  show(value: unknown, human: (writer: TextWriter, rows: number | null) => void): void;
  /** Must be called when the command ends, also after an error. */
  end(): void;
}

/** The output of a command. Results go to stdout, everything else to stderr. */
export interface Output {
  /** `--json`: stdout gets one JSON document and nothing else. */
  readonly json: boolean;
  /** The result of the command, once: the value as JSON, or what `human` writes. */
  result(value: unknown, human: (writer: TextWriter) => void): void;
  /** One of several results of a long-running command: with `--json` one document per line. */
  event(value: unknown, human: (writer: TextWriter) => void): void;
  /** For a command that shows the same page repeatedly. */
  frames(): Frames;
  /** A line for people, on stderr. */
  note(...parts: readonly Part[]): void;
  /** A warning. The command continues. */
  warn(message: string): void;
  /** Writes notes and warnings to this log from now on. */
  logTo(log: Logger): void;
  /** The log that was set by `logTo`. */
  readonly log: Logger | null;
  /** Shows progress: a bar on a terminal, else a line every few seconds. `total` is null if not known. */
  progress(label: string, total: number | null): Progress;
  /** Aborted when the reader of stdout has closed it (`| head`). A command that only writes can stop. */
  readonly stdoutClosed: AbortSignal;
}

/** Options of an output. */
export interface OutputOptions {
  readonly stdout: Sink;
  readonly stderr: Sink;
  readonly json: boolean;
  /** For stdout and stderr. */
  readonly colours: { readonly stdout: boolean; readonly stderr: boolean };
  readonly stdoutClosed: AbortSignal;
  /** Milliseconds, for progress. */
  readonly now: () => number;
}

/** Creates the output of a command. */
export function createOutput(options: OutputOptions): Output {
  const { stdout, stderr, json, colours, stdoutClosed, now } = options;
  let hasResult = false;
  let bar: Progress | null = null;
  let log: Logger | null = null;
  const writeLine = (text: string): void => {
    bar?.hide();
    stderr.write(text);
    bar?.show();
  };
  const writer = textWriterOn(stdout, colours.stdout);
  const event: Output["event"] = (value, human) => {
    if (json) stdout.write(`${jsonText(value, 0)}\n`);
    else if (log === null) human(writer);
    else human(textWriterOn({ write: (text) => log?.info({}, text.trimEnd()), terminalWidth: () => null }, false));
  };
  return {
    json,
    stdoutClosed,
    result(value, human) {
      if (hasResult) throw new CommandError("a command returned two results; this is a bug in Holdfast");
      hasResult = true;
      bar?.hide();
      if (json) stdout.write(`${jsonText(value, 2)}\n`);
      else human(writer);
    },
    event,
    frames() {
      if (json || stdout.terminal === null) {
        return { show: (value, human) => event(value, (writer) => human(writer, null)), end: () => {} };
      }
      const screen = startScreen(stdout, stdout.terminal);
      return {
        show: (_value, human) => screen.show((sink, rows) => human(textWriterOn(sink, colours.stdout), rows)),
        end: () => screen.end(),
      };
    },
    get log() {
      return log;
    },
    logTo(given) {
      log = given;
    },
    note(...parts) {
      if (log !== null) return log.info({}, parts.map(textOf).join(""));
      writeLine(`${parts.map((part) => coloured(textOf(part), part, colours.stderr)).join("")}\n`);
    },
    warn(message) {
      if (log !== null) return log.warn({}, message);
      const label = paint("warning:", "yellow");
      writeLine(`${coloured(label.text, label, colours.stderr)} ${cleanBlock(message)}\n`);
    },
    progress(label, total) {
      bar?.end();
      bar = startProgress({ label, total, stderr, now });
      return bar;
    },
  };
}

function textWriterOn(stdout: Pick<Sink, "write" | "terminalWidth">, colours: boolean): TextWriter {
  const line = (...parts: readonly Part[]): void => {
    stdout.write(`${parts.map((part) => coloured(textOf(part), part, colours)).join("")}\n`);
  };
  return {
    line,
    block(text) {
      stdout.write(`${cleanBlock(text)}\n`);
    },
    table(columns, rows) {
      const lines = tableLines(columns, rows, { cells: stdout.terminalWidth(), colours });
      stdout.write(`${lines.join("\n")}\n`);
    },
    fields(pairs) {
      const widest = Math.max(0, ...pairs.map(([name]) => name.length));
      for (const [name, ...value] of pairs) line(paint(`${name}:`.padEnd(widest + 2), "gray"), ...value);
    },
  };
}
