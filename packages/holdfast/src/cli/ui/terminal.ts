/** A terminal whose cursor can be moved. */
export interface Terminal {
  readonly rows: () => number;
  /**
   * Calls `draw` when the screen must be redrawn: after a resize, and when the process continues after Ctrl-Z. Calls
   * `leave` before the process releases the terminal: at Ctrl-Z and at exit. Returns a function that stops both.
   */
  readonly watch: (on: { draw: () => void; leave: () => void }) => () => void;
}

/** The terminal of a stream; null if it is not a terminal, or a dumb one. */
export function terminalOf(
  stream: NodeJS.WriteStream,
  env: Readonly<Record<string, string | undefined>>,
): Terminal | null {
  if (!stream.isTTY || env["TERM"] === "dumb") return null;
  return {
    // A pseudo-terminal without a size has 0 rows.
    rows: () => stream.rows || 24,
    watch({ draw, leave }) {
      const pause = (): void => {
        leave();
        process.kill(process.pid, "SIGSTOP");
      };
      stream.on("resize", draw);
      process.on("SIGCONT", draw).on("SIGTSTP", pause).on("exit", leave);
      return () => {
        stream.off("resize", draw);
        process.off("SIGCONT", draw).off("SIGTSTP", pause).off("exit", leave);
      };
    },
  };
}
