import type { Logger } from "holdfast";

/** Keeps what is logged during the walk, which makes things fail on purpose. */
export interface WalkLog {
  readonly logger: Logger;
  /** Prints what was logged, and from now on everything at once. */
  print(): void;
  /** Prints only what is logged from now on. */
  follow(): void;
}

export function walkLog(): WalkLog {
  let kept: string[] | null = [];
  const write = (level: string) => (fields: object, message: string) => {
    const line = `${level}: ${message} ${JSON.stringify(fields)}`;
    if (kept === null) console.error(line);
    else kept.push(line);
  };
  return {
    logger: { info: () => {}, warn: write("warn"), error: write("error") },
    print() {
      for (const line of kept ?? []) console.error(line);
      kept = null;
    },
    follow() {
      kept = null;
    },
  };
}
