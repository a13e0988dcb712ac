import { AssertionError } from "node:assert";
import { isDeepStrictEqual } from "node:util";
import type { Filter, ListOptions } from "../engine/client/filter.js";
import type { Holdfast } from "../engine/client/holdfast.js";
import type { Job, JobType } from "../job/job.js";

type Client = Pick<Holdfast, "list">;
type Wanted = Omit<Filter, "type">;

/**
 * Asserts that a job of this type was enqueued with an input that contains `input`. Returns the job.
 *
 * ```ts
 * await signUp(hf, "ada@example.com");
 * await expectEnqueued(hf, welcome, { to: "ada@example.com" });
 * ```
 */
export async function expectEnqueued<Input, Output>(
  hf: Client,
  type: JobType<Input, Output>,
  input?: Partial<NoInfer<Input>>,
  filter: Wanted = {},
): Promise<Job<Input, Output>> {
  const seen: unknown[] = [];
  for await (const job of jobsOf(hf, { ...filter, type })) {
    if (input === undefined || contains(job.input, input)) return job as Job<Input, Output>;
    if (seen.length < 5) seen.push(job.input);
  }
  throw new AssertionError({
    message:
      `no ${type.type} job was enqueued with ${show(input)}` +
      (seen.length === 0 ? "; no job of that type exists" : `; found: ${seen.map(show).join(", ")}`),
    expected: input,
    actual: seen,
    operator: "expectEnqueued",
    stackStartFn: expectEnqueued,
  });
}

/** Asserts that no such job exists. */
export async function expectNotEnqueued<Input, Output>(
  hf: Client,
  type: JobType<Input, Output>,
  input?: Partial<NoInfer<Input>>,
  filter: Wanted = {},
): Promise<void> {
  for await (const job of jobsOf(hf, { ...filter, type })) {
    if (input !== undefined && !contains(job.input, input)) continue;
    throw new AssertionError({
      message: `a ${type.type} job was enqueued with ${show(job.input)} (job ${job.id}, ${job.state})`,
      operator: "expectNotEnqueued",
      stackStartFn: expectNotEnqueued,
    });
  }
}

async function* jobsOf(hf: Client, filter: Filter): AsyncGenerator<Job> {
  const options: ListOptions = { ...filter, limit: 500 };
  do {
    const page = await hf.list(options);
    yield* page.jobs;
    options.cursor = page.cursor;
  } while (options.cursor !== null);
}

/** Whether `actual` contains everything in `wanted`; objects may have more fields. */
function contains(actual: unknown, wanted: unknown): boolean {
  if (typeof wanted !== "object" || wanted === null || Array.isArray(wanted)) return isDeepStrictEqual(actual, wanted);
  // Dates and similar objects are stored as their toJSON returns.
  if (typeof (wanted as { toJSON?: unknown }).toJSON === "function") {
    return isDeepStrictEqual(actual, JSON.parse(JSON.stringify(wanted)));
  }
  if (typeof actual !== "object" || actual === null) return false;
  return Object.entries(wanted).every(([key, value]) => contains((actual as Record<string, unknown>)[key], value));
}

function show(value: unknown): string {
  return value === undefined ? "any input" : JSON.stringify(value);
}
