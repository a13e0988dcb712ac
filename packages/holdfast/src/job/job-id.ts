import type { JobType } from "./job.js";

declare const output: unique symbol;

/**
 * The id of a job, with the type of its output for the compiler: `hf.result(id)` is typed by it. At run time it is a plain
 * string, and a plain string can be used in its place; the output is then `unknown`.
 */
export type JobId<Output = unknown> = string & { readonly [output]?: Output };

/** The output of a job, from its type or its id: `JobOutput<typeof welcome>`. */
export type JobOutput<Of> =
  Of extends JobType<unknown, infer Output> ? Output : Of extends JobId<infer Output> ? Output : unknown;
