/** The command line is invalid. The message is one sentence. */
export class UsageError extends Error {}
