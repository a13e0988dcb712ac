import { dateOf, dateOrNull } from "../../duration.js";
import type { JobStep } from "../../job/step-types.js";
import { eventTopic, jobTopic } from "../../job/stored-step.js";
import type { StoredStep } from "../../store.js";
import { parseStored } from "../client/job-view.js";
import type { EngineContext } from "../context.js";

/** The steps of a job, in the order in which its handler began them. */
export async function listSteps({ store, clock }: EngineContext, id: string): Promise<JobStep[]> {
  const { steps } = await store.steps(id);
  return steps.map((step) => readStep(step, clock.now()));
}

function readStep(step: StoredStep, now: number): JobStep {
  // A sleep ends by its time alone; its end is not stored.
  const isOver = step.kind === "sleep" && step.until !== null && step.until <= now;
  return {
    name: step.name,
    member: step.member,
    kind: step.kind,
    state: isOver ? "done" : step.state,
    event: step.kind === "event" ? topicOf(step, eventTopic("")) : null,
    job: step.kind === "job" ? topicOf(step, jobTopic("")) : null,
    value: parseStored(step.value),
    error: step.failure === null ? null : { message: step.failure.message, code: step.failure.code },
    tries: step.tries,
    fence: step.fence,
    startedAt: dateOf(step.startedAt),
    endedAt: dateOrNull(isOver ? step.until : step.state === "waiting" ? null : step.endedAt),
    until: dateOrNull(step.until),
  };
}

function topicOf({ topic }: StoredStep, prefix: string): string | null {
  return topic?.startsWith(prefix) === true ? topic.slice(prefix.length) : null;
}
