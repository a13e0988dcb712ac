import type { Sink } from "./output.js";
import { clean } from "../../terminal-text.js";
import { cut } from "./text-width.js";

/** The progress of a long operation. */
export interface Progress {
  /** Sets how much is done. The total may become known, or grow, meanwhile. */
  update(done: number, total?: number): void;
  /** Writes the last state as a line. May be called again. */
  end(): void;
  /** Removes the bar, so that a line can be written. */
  hide(): void;
  /** Draws it again. */
  show(): void;
}

// Minimum time between two drawings of the bar, and between two lines if stderr is not a terminal.
const DRAW_MS = 50;
const LINE_MS = 5_000;
const BAR_CELLS = 20;
const CLEAR_LINE = "\r\u001b[K";

/** Shows progress on stderr. */
export function startProgress({
  label,
  total: known,
  stderr,
  now,
}: {
  label: string;
  total: number | null;
  stderr: Sink;
  now: () => number;
}): Progress {
  const cells = stderr.terminalWidth();
  let done = 0;
  let total = known;
  let last = now();
  let drawn = false;
  let ended = false;
  const text = (): string => `${clean(label)} ${describeProgress(done, total)}`;
  const draw = (): void => {
    stderr.write(`${CLEAR_LINE}${cut(`${barOf(done, total)}${text()}`, (cells ?? 80) - 1)}`);
    drawn = true;
  };
  return {
    update(to, of) {
      if (ended) return;
      done = to;
      total = of ?? total;
      if (now() - last < (cells === null ? LINE_MS : DRAW_MS)) return;
      last = now();
      if (cells === null) stderr.write(`${text()}\n`);
      else draw();
    },
    end() {
      if (ended) return;
      ended = true;
      stderr.write(`${drawn ? CLEAR_LINE : ""}${text()}\n`);
      drawn = false;
    },
    hide() {
      if (drawn) stderr.write(CLEAR_LINE);
    },
    show() {
      if (drawn && !ended) draw();
    },
  };
}

function barOf(done: number, total: number | null): string {
  if (total === null || total === 0) return "";
  const full = Math.round(Math.min(1, done / total) * BAR_CELLS);
  return `${"█".repeat(full)}${"░".repeat(BAR_CELLS - full)} `;
}

/** `1,200 of 5,000 (24 %)`. */
export function describeProgress(done: number, total: number | null): string {
  const count = (n: number): string => n.toLocaleString("en-US");
  if (total === null) return count(done);
  const share = total === 0 ? 100 : Math.floor(Math.min(1, done / total) * 100);
  return `${count(done)} of ${count(total)} (${share} %)`;
}
