import { JobNotFoundError } from "../../errors.js";
import { newId, readId } from "../../job/uuid.js";
import { encodeInput, namedType } from "../../job/job.js";
import { optionKeys, refuseUnknown } from "../../options.js";
import type { NewJob } from "../../store.js";
import type { EngineContext } from "../context.js";
import { settingsOf } from "../enqueue/new-job.js";
import { scheduleUnique } from "../enqueue/unique.js";

/** What `hf.rerun` takes. */
export interface RerunOptions {
  /** Replaces the input of the old job. */
  input?: unknown;
}

const RERUN_KEYS: ReadonlySet<string> = optionKeys<RerunOptions>({ input: true });

/** A new job from the record of an old one. */
export async function jobForRerun(engine: EngineContext, id: string, options: RerunOptions): Promise<NewJob> {
  const { store, clock, types } = engine;
  refuseUnknown(options, RERUN_KEYS, "rerun");
  const old = await store.get(readId(id));
  if (old === null) throw new JobNotFoundError(id);
  const { type, queue, priority, user, maxAttempts, tags, schedule } = old;
  const hasInput = options.input !== undefined;
  const input = hasInput ? await encodeInput(types.get(type) ?? namedType(type), options.input) : old.input;
  // The rerun of a job whose schedule has `overlap: "skip"` must not overlap with another job of that schedule either.
  const unique = schedule === null ? null : scheduleUnique(schedule.name);
  return {
    id: newId(clock.now()),
    type,
    queue,
    priority,
    user,
    input,
    maxAttempts,
    tags,
    schedule,
    runAt: null,
    delayMs: 0,
    expiresAt: null,
    unique: unique?.key === old.key ? unique : null,
    parent: null,
    settings: types.has(type) ? settingsOf(types.get(type), old.settings?.timeoutMs) : old.settings,
    trace: null,
  };
}
