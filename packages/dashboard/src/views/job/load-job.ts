import type { JobDetail } from "holdfast/admin";
import { loadText, payloadOf, type Payload } from "../../app/stored-text.js";

export interface LoadedJob {
  job: JobDetail;
  input: Payload;
  output: Payload;
}

const last = new Map<string, { text: string; loaded: LoadedJob }>();

/** Loads a job, and keeps the text of its payloads. */
export async function loadJob(id: string): Promise<LoadedJob> {
  const [job, text] = await loadText((client) => client.jobs.get({ id }));
  const before = last.get(id);
  // The same object, so that nothing is drawn again.
  if (before?.text === text) return before.loaded;
  const loaded = { job, input: payloadOf(text, "input"), output: payloadOf(text, "output") };
  last.clear();
  last.set(id, { text, loaded });
  return loaded;
}
