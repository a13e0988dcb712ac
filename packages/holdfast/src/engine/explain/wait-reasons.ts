import { lengthOf } from "../../duration.js";
import { eventTopic, jobTopic } from "../../job/stored-step.js";
import type { StoredStep } from "../../store.js";
import { timeText, type Reason } from "./reason.js";

// A job can wait for thousands of children.
const MAX_WAITS = 5;

/** What the steps of a parked job wait for; none if none of them waits. */
export function waitReasons(steps: readonly StoredStep[], now: number): Reason[] {
  const waiting = steps.filter(({ state, until }) => state === "waiting" && (until === null || until > now));
  const byName = new Map<string, StoredStep[]>();
  for (const step of waiting) {
    const members = byName.get(step.name);
    if (members === undefined) byName.set(step.name, [step]);
    else members.push(step);
  }
  return [...byName.values()].slice(0, MAX_WAITS).map((members) => waitReason(members, steps, now));
}

function waitReason(members: readonly StoredStep[], steps: readonly StoredStep[], now: number): Reason {
  const [step] = members as [StoredStep];
  const since = `for ${lengthOf(Math.max(0, now - step.startedAt))}`;
  const until = step.until === null ? null : new Date(step.until);
  const ends = step.until === null ? "" : ` until ${timeText(step.until)}`;
  const name = JSON.stringify(step.name);
  switch (step.kind) {
    case "event": {
      const event = (step.topic ?? "").slice(eventTopic("").length);
      const text = `It has waited for the event "${event}" ${since}, in step ${name}${ends === "" ? "" : `, and waits${ends}`}.`;
      return {
        kind: "waits-for-event",
        text,
        change: `hf.emit(${JSON.stringify(event)}, payload) lets it go on.`,
        until,
        event,
      };
    }
    case "job": {
      const child = (step.topic ?? "").slice(jobTopic("").length);
      const all = steps.filter((each) => each.name === step.name).length;
      if (all > 1) {
        const text = `It waits for ${members.length} of ${all} child jobs of step ${name}, ${since}.`;
        return {
          kind: "waits-for-job",
          text,
          change: `hf.explain("${child}") says why one of them does not run.`,
          until,
          job: child,
        };
      }
      const text = `It has waited for its child job ${child} ${since}, in step ${name}.`;
      return {
        kind: "waits-for-job",
        text,
        change: `hf.explain("${child}") says why that does not run.`,
        until,
        job: child,
      };
    }
    case "sleep":
      return { kind: "sleeps", text: `It sleeps${ends}, in step ${name}.`, change: null, until };
    case "run": {
      const tries = step.tries === 1 ? "once" : `${step.tries} times`;
      const text = `Step ${name} failed ${tries} and runs again at ${timeText(step.until ?? now)}.`;
      return { kind: "step-retry", text, change: null, until };
    }
  }
}
