import { JobNotFoundError } from "../../errors.js";
import { isFinished, isWaiting } from "../../job/state.js";
import { readId } from "../../job/uuid.js";
import type { Scope, StoredJob } from "../../store.js";
import type { EngineContext } from "../context.js";
import type { Reason } from "./reason.js";
import { reasonsOf, withoutOthers } from "./reasons.js";

/** Why a job does not run, or what it does instead. */
export interface Explanation {
  /** The decisive reason. */
  text: string;
  /** The decisive one first. Never empty. */
  reasons: Reason[];
}

// Counting more jobs would cost more, and says nothing more.
const MAX_AHEAD = 1_000;
const METERED_MAX_AHEAD = 200;

/** A bounded number of reads: the job, queues, workers, and the jobs ahead or the holder of its key. */
export async function explainJob(engine: EngineContext, id: string, scope: Scope): Promise<Explanation> {
  const { store, clock } = engine;
  const job = await store.get(readId(id), scope);
  if (job === null) throw new JobNotFoundError(id);
  const maxAhead = store.capabilities.metered ? METERED_MAX_AHEAD : MAX_AHEAD;
  const [queues, workers] = isFinished(job.state) ? [[], []] : await Promise.all([store.queues(), store.workers()]);
  // After the queues: on DynamoDB, both need the same item, which is then read once.
  const [ahead, keyHolder, steps] = await Promise.all([
    isDue(job, clock.now()) ? store.countAhead({ ...job, dueAt: job.dueAt ?? 0 }, maxAhead) : 0,
    otherHolder(engine, job),
    mayWaitForSteps(job, clock.now()) ? store.steps(job.id).then((read) => read.steps) : [],
  ]);
  const reasons = reasonsOf({ job, queues, workers, ahead, maxAhead, keyHolder, steps }, clock.now());
  const shown = scope.user === undefined ? reasons : reasons.map(withoutOthers);
  return { text: shown[0]?.text ?? "", reasons: shown };
}

function isDue({ state, dueAt }: StoredJob, now: number): boolean {
  return isWaiting(state) && dueAt !== null && dueAt <= now;
}

function mayWaitForSteps({ state, dueAt, fence }: StoredJob, now: number): boolean {
  return isWaiting(state) && fence > 0 && dueAt !== null && dueAt > now;
}

/** Only dead and cancelled jobs can be retried, and only then another job may hold their key. */
async function otherHolder({ store }: EngineContext, { id, key, state }: StoredJob): Promise<string | null> {
  if (key === null || (state !== "dead" && state !== "cancelled")) return null;
  const holder = await store.keyHolder(key);
  return holder === null || holder.job === id ? null : holder.job;
}
