import { eventTopic, jobTopic } from "../../../job/stored-step.js";

/** The name of the event that is this topic; null if it is no event. */
export function eventOf(topic: string | null): string | null {
  return after(eventTopic(""), topic);
}
/** The id of the job whose end is this topic; null if it is no job. */
export function jobOf(topic: string | null): string | null {
  return after(jobTopic(""), topic);
}

function after(prefix: string, topic: string | null): string | null {
  return topic?.startsWith(prefix) === true ? topic.slice(prefix.length) : null;
}
