import type { Logger } from "../../engine/events/logger.js";
import { Failure } from "../errors.js";
import { startProgress, type Progress } from "./progress.js";
import { startScreen } from "./screen.js";
import { coloured, paint, textOf, type Part } from "./style.js";
import { tableLines, type Column } from "./table.js";
import type { Terminal } from "./terminal.js";
import { cleanBlock, jsonText } from "../../terminal-text.js";

/** A stream that is written to. */
export interface Sink {
  write(text: string): void;
  /** Cells in a line of the terminal; null if it is none. */
  readonly cells: () => number | null;
  /** Null where the cursor cannot be placed: a file, a pipe, a terminal that only takes lines. */
  readonly terminal: Terminal | null;
}

/** What an answer for people is written with. Texts may hold anything; nothing of it acts on the terminal. */
export interface Page {
  /** One line. */
  line(...parts: readonly Part[]): void;
  /** A block of text with lines of its own. */
  block(text: string): void;
  /** A table, cut to the width of a terminal; whole in a file or pipe. */
  table(columns: readonly Column[], rows: readonly (readonly Part[])[]): void;
  /** Names and values, one below the other. */
  fields(pairs: readonly (readonly [name: string, ...value: readonly Part[]])[]): void;
}

/** Pages of which, on a terminal, each takes the place of the one before. Elsewhere they are events. */
export interface Frames {
  /** `rows`: how many lines can be seen; null where one page follows the other. */
  show(value: unknown, human: (page: Page, rows: number | null) => void): void;
  /** To be called however the command ends. */
  end(): void;
}

/** Everything a command says. Answers go to stdout, the rest to stderr. */
export interface Output {
  /** `--json`: stdout gets one JSON document and nothing else. */
  readonly json: boolean;
  /** The command's answer, once: the value as JSON, or what `human` writes. */
  answer(value: unknown, human: (page: Page) => void): void;
  /** One of many answers, of a command that goes on: with `--json` a document on a line of its own. */
  event(value: unknown, human: (page: Page) => void): void;
  /** For a command that shows the same thing again and again. */
  frames(): Frames;
  /** For people only, beside the answer. */
  note(...parts: readonly Part[]): void;
  /** Something is odd, but goes on. */
  warn(message: string): void;
  /** From now on notes and warnings are lines of this log. */
  logTo(log: Logger): void;
  /** What was last given to `logTo`. */
  readonly log: Logger | null;
  /** Shows how far a long work is: a bar on a terminal, a line now and then elsewhere. `total` null: not known. */
  progress(label: string, total: number | null): Progress;
  /** Aborted when nobody reads stdout any more (`| head`): whoever only writes can stop, the rest goes on. */
  readonly gone: AbortSignal;
}

/** What an output writes to, and how. */
export interface OutputOptions {
  readonly stdout: Sink;
  readonly stderr: Sink;
  readonly json: boolean;
  /** For stdout and stderr. */
  readonly colours: { readonly stdout: boolean; readonly stderr: boolean };
  readonly gone: AbortSignal;
  /** Milliseconds, for the lines of progress. */
  readonly now: () => number;
}

/** Makes the output of a command. */
export function createOutput(options: OutputOptions): Output {
  const { stdout, stderr, json, colours, gone, now } = options;
  let answered = false;
  let bar: Progress | null = null;
  let log: Logger | null = null;
  const say = (text: string): void => {
    bar?.hide();
    stderr.write(text);
    bar?.show();
  };
  const page = pageOn(stdout, colours.stdout);
  const event: Output["event"] = (value, human) => {
    if (json) stdout.write(`${jsonText(value, 0)}\n`);
    else if (log === null) human(page);
    else human(pageOn({ write: (text) => log?.info({}, text.trimEnd()), cells: () => null }, false));
  };
  return {
    json,
    gone,
    answer(value, human) {
      if (answered) throw new Failure("a command answered twice; this is a mistake in Holdfast");
      answered = true;
      bar?.hide();
      if (json) stdout.write(`${jsonText(value, 2)}\n`);
      else human(page);
    },
    event,
    frames() {
      if (json || stdout.terminal === null) {
        return { show: (value, human) => event(value, (each) => human(each, null)), end: () => {} };
      }
      const screen = startScreen(stdout, stdout.terminal);
      return {
        show: (_value, human) => screen.show((sink, rows) => human(pageOn(sink, colours.stdout), rows)),
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
      say(`${parts.map((part) => coloured(textOf(part), part, colours.stderr)).join("")}\n`);
    },
    warn(message) {
      if (log !== null) return log.warn({}, message);
      const label = paint("warning:", "yellow");
      say(`${coloured(label.text, label, colours.stderr)} ${cleanBlock(message)}\n`);
    },
    progress(label, total) {
      bar?.end();
      bar = startProgress({ label, total, stderr, now });
      return bar;
    },
  };
}

function pageOn(stdout: Pick<Sink, "write" | "cells">, colours: boolean): Page {
  const line = (...parts: readonly Part[]): void => {
    stdout.write(`${parts.map((part) => coloured(textOf(part), part, colours)).join("")}\n`);
  };
  return {
    line,
    block(text) {
      stdout.write(`${cleanBlock(text)}\n`);
    },
    table(columns, rows) {
      const lines = tableLines(columns, rows, { cells: stdout.cells(), colours });
      stdout.write(`${lines.join("\n")}\n`);
    },
    fields(pairs) {
      const widest = Math.max(0, ...pairs.map(([name]) => name.length));
      for (const [name, ...value] of pairs) line(paint(`${name}:`.padEnd(widest + 2), "gray"), ...value);
    },
  };
}
