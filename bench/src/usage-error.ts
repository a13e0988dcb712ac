/** The command line is wrong; the message is one sentence that says how. */
export class UsageError extends Error {}
