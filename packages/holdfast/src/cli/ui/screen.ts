import type { Sink } from "./output.js";
import type { Terminal } from "./terminal.js";
import { cut, widthOf } from "./text-width.js";

// The alternate screen, without a cursor and without line wrapping.
const ENTER = "\u001b[?1049h\u001b[?25l\u001b[?7l";
const LEAVE = "\u001b[?7h\u001b[?25h\u001b[?1049l";
const HOME = "\u001b[H";
const CLEAR_LINE = "\u001b[2K";
const CLEAR_BELOW = "\u001b[J";

/** Writes a frame of at most `rows` lines; null means no limit. */
export type Frame = (sink: Pick<Sink, "write" | "terminalWidth">, rows: number | null) => void;

/** A terminal on which each frame replaces the one before. */
export interface Screen {
  show(frame: Frame): void;
  /** Restores the terminal and writes the last frame to it. May be called again. */
  end(): void;
}

/** The terminal is switched at the first frame. */
export function startScreen(
  { write, terminalWidth }: Pick<Sink, "write" | "terminalWidth">,
  terminal: Terminal,
): Screen {
  let last: Frame | null = null;
  let isOn = false;
  const textOf = (frame: Frame, rows: number | null): string => {
    let text = "";
    frame({ write: (more) => void (text += more), terminalWidth }, rows);
    return text;
  };
  const draw = (): void => {
    if (last === null) return;
    const rows = terminal.rows();
    const lines = textOf(last, rows).trimEnd().split("\n").slice(0, rows);
    // A line break in the last row would scroll the others up.
    const below = lines.length < rows ? `\r\n${CLEAR_BELOW}` : "";
    const text = lines.map((line) => `${CLEAR_LINE}${cutColoured(line, terminalWidth() ?? 80)}`).join("\r\n");
    write(`${isOn ? "" : ENTER}${HOME}${text}${below}`);
    isOn = true;
  };
  const leave = (): void => {
    if (isOn) write(LEAVE);
    isOn = false;
  };
  const stopWatching = terminal.watch({ draw, leave });
  return {
    show(frame) {
      last = frame;
      draw();
    },
    end() {
      stopWatching();
      leave();
      if (last !== null) write(textOf(last, null));
      last = null;
    },
  };
}

// oxlint-disable-next-line no-control-regex -- escape sequences of colours
const COLOUR = /(\u001b\[\d+m)/;

/** Cuts a line to a width, and keeps every escape sequence that resets its colours. */
function cutColoured(line: string, cells: number): string {
  let left = cells;
  const parts = line.split(COLOUR).map((part) => {
    if (COLOUR.test(part)) return part;
    const shown = cut(part, left);
    left -= widthOf(shown);
    return shown;
  });
  return parts.join("");
}
