import { HoldfastError } from "../errors.js";

/** The command could not do its work: one sentence, and what may help. Exit code 1. */
export class Failure extends HoldfastError {
  readonly hint: string | null;
  constructor(message: string, options: { hint?: string; cause?: unknown; code?: string } = {}) {
    super(options.code ?? "FAILED", message, options.cause === undefined ? undefined : { cause: options.cause });
    this.hint = options.hint ?? null;
  }
}

/** The command was not called as it can be; nothing was done. Exit code 2. */
export class BadUsage extends Failure {
  constructor(message: string, hint?: string) {
    super(message, { code: "BAD_USAGE", ...(hint !== undefined && { hint }) });
  }
}

/** A signal of the system asked the command to end. */
export class Interrupted extends HoldfastError {
  readonly signal: "SIGINT" | "SIGTERM";
  constructor(signal: "SIGINT" | "SIGTERM") {
    super("INTERRUPTED", `stopped by ${signal}`);
    this.signal = signal;
  }
}

/** What the process ends with. */
export const EXIT = { done: 0, failed: 1, badUsage: 2, SIGINT: 130, SIGTERM: 143 } as const;
