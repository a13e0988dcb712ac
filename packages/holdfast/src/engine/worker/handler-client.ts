import type { EnqueueManyOptions, EnqueueOptions } from "../../job/enqueue-types.js";
import type { HandlerClient, JobType } from "../../job/job.js";
import type { EmitOptions } from "../../job/step-types.js";
import { readId } from "../../job/uuid.js";
import { getJob } from "../client/get-job.js";
import type { EngineContext } from "../context.js";
import { EnqueueCalls } from "../enqueue/enqueue-calls.js";
import type { ParentJob } from "../enqueue/job-builder.js";
import { emitEvent } from "../steps/emit.js";

/** The client in a handler's context. Its functions do not use `this`, so they can be destructured. */
export function handlerClient(engine: EngineContext, parent: ParentJob): HandlerClient {
  const calls = new EnqueueCalls(engine, () => engine, engine.enqueuer.forParent(parent));
  const client = {
    enqueue: (type: JobType, input?: unknown, options: EnqueueOptions = {}) => calls.enqueue(type, input, options),
    enqueueMany: (
      type: JobType,
      inputs: Iterable<unknown> | AsyncIterable<unknown>,
      options: EnqueueManyOptions<unknown> = {},
    ) => calls.enqueueMany(type, inputs, options),
    enqueueNamed: (type: string, input?: unknown, options: EnqueueOptions = {}) =>
      calls.enqueueNamed(type, input, options),
    get: async (id: string) => getJob(engine, readId(id), {}),
    emit: (event: string, payload?: unknown, options: EmitOptions = {}) =>
      emitEvent(() => engine, engine.store, event, payload, options),
  };
  return client as HandlerClient;
}
