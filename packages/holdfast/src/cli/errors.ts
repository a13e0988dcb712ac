import { HoldfastError } from "../errors.js";

/** The command failed: one sentence, and a hint on what to do. Exit code 1. */
export class CommandError extends HoldfastError {
  readonly hint: string | null;
  constructor(message: string, options: { hint?: string; cause?: unknown; code?: string } = {}) {
    super(options.code ?? "FAILED", message, options.cause === undefined ? undefined : { cause: options.cause });
    this.hint = options.hint ?? null;
  }
}

/** The command line is wrong; nothing was changed. Exit code 2. */
export class UsageError extends CommandError {
  constructor(message: string, hint?: string) {
    super(message, { code: "BAD_USAGE", ...(hint !== undefined && { hint }) });
  }
}

/** The process received SIGINT or SIGTERM. */
export class InterruptedError extends HoldfastError {
  readonly signal: "SIGINT" | "SIGTERM";
  constructor(signal: "SIGINT" | "SIGTERM") {
    super("INTERRUPTED", `stopped by ${signal}`);
    this.signal = signal;
  }
}

/** Exit codes of the process. */
export const EXIT = { done: 0, failed: 1, badUsage: 2, SIGINT: 130, SIGTERM: 143 } as const;
