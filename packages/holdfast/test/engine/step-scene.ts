import { job, type JobType, type NoInput, type RetryOptions, type RunContext } from "holdfast";
import { scene, type Scene } from "./scene.js";

type Context = RunContext<Record<string, never>>;

export const AT_ONCE: RetryOptions = { maxAttempts: 3, backoff: { base: 0, jitter: 0 } };

/** A job type with this handler. */
export function stepping<Output>(
  run: (context: Context) => Output | Promise<Output>,
  retry = AT_ONCE,
): JobType<NoInput, Output> {
  return job({ type: "stepping", retry, run });
}

/** Runs the job until nothing is due. */
export async function run(
  handler: (context: Context) => unknown,
  retry = AT_ONCE,
): Promise<Scene & { id: string; stepsOf: () => Promise<unknown[]> }> {
  const type = stepping(handler, retry);
  const on = await scene({ jobs: [type] });
  const { id } = await on.hf.enqueue(type);
  await on.hf.drain();
  const stepsOf = async (): Promise<unknown[]> =>
    (await on.hf.steps(id)).map(({ name, state, value }) => [name, state, value]);
  return { ...on, id, stepsOf };
}
