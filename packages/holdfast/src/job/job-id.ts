import type { JobType } from "./job.js";

declare const output: unique symbol;

/**
 * The id of a job, with the type of its output for the compiler: `hf.result(id)` is typed by it. At run time it is a plain
 * string, and a plain string can be used in its place; the output is then `unknown`.
 */
export type JobId<Output = unknown> = string & { readonly [output]?: Output };

/** The output of a job as `hf.result` returns it, from its type or its id: `JobOutput<typeof welcome>`. */
export type JobOutput<Of> =
  Of extends JobType<unknown, infer Output>
    ? StoredOutput<Awaited<Output>>
    : Of extends JobId<infer Output>
      ? Output
      : unknown;

/** A handler that returns nothing has the output `{}`. */
type StoredOutput<Output> = unknown extends Output
  ? Output
  : Output extends void
    ? Record<string, never>
    : AsJson<Output>;

/**
 * The type of a value after a round trip through JSON: a `Date` becomes a string, methods are dropped. `never` for values that
 * JSON cannot represent.
 */
export type AsJson<Value> = unknown extends Value
  ? Value
  : Value extends string | number | boolean | null | undefined
    ? Value
    : Value extends { toJSON(key: string): infer Json }
      ? AsJson<Json>
      : Value extends NotJson
        ? never
        : Value extends readonly unknown[]
          ? { [Index in keyof Value]: AsJson<Value[Index]> }
          : { [Key in keyof Value as Value[Key] extends NotJson ? never : Key]: AsJson<Value[Key]> };

type NotJson =
  | bigint
  | symbol
  | ((...args: never[]) => unknown)
  | ReadonlyMap<unknown, unknown>
  | ReadonlySet<unknown>
  | Promise<unknown>;
