import { holdfast } from "holdfast";
import { noop, payload } from "../jobs.js";
import type { Stage } from "./role.js";

export interface EnqueueOrder {
  url: string;
  /** `singly`: each caller awaits each enqueue. `in bulk`: one `enqueueMany`. */
  how: "singly" | "in bulk";
  callers: number;
  count: number;
}

export interface Timed {
  seconds: number;
  count: number;
}

const WARM_UP = 20;

/** A process that only enqueues. */
export async function enqueue({ url, how, callers, count }: EnqueueOrder, stage: Stage): Promise<Timed> {
  const type = noop(() => {});
  const hf = await holdfast({ store: url, jobs: [type], logger: false });
  const input = payload();
  for (let index = 0; index < WARM_UP; index++) await hf.enqueue(type, input);
  await stage.ready();

  let left = count;
  let refused = 0;
  const call = async (): Promise<void> => {
    while (left-- > 0) await hf.enqueue(type, input);
  };
  const begun = performance.now();
  if (how === "singly") await Promise.all(Array.from({ length: callers }, call));
  else {
    const results = await hf.enqueueMany(
      type,
      Array.from({ length: count }, () => input),
    );
    refused = results.filter((result) => result.error !== null).length;
  }
  const seconds = (performance.now() - begun) / 1_000;
  const { pending } = (await hf.stats()).states;
  await hf.close();
  if (pending !== count + WARM_UP || refused > 0) throw new Error(`${pending} of ${count + WARM_UP} jobs were stored`);
  return { seconds, count };
}
