/** A terminal on which the cursor can be placed. */
export interface Terminal {
  readonly rows: () => number;
  /**
   * Calls `draw` when what is shown has to be drawn again: the size changed, or the process goes on after Ctrl-Z. Calls `leave` before the
   * process leaves the terminal to others: at Ctrl-Z, and at its end, whatever ends it but a kill. Answers a function that ends both.
   */
  readonly watch: (on: { draw: () => void; leave: () => void }) => () => void;
}

/** The terminal of a stream; null where it is none, or one that only takes lines. */
export function terminalOf(
  stream: NodeJS.WriteStream,
  env: Readonly<Record<string, string | undefined>>,
): Terminal | null {
  if (!stream.isTTY || env["TERM"] === "dumb") return null;
  return {
    // A pseudo-terminal whose size nobody set says 0.
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
