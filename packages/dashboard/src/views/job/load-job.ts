import type { JobDetail } from "holdfast/admin";
import { newClient } from "#client";
import { send } from "../../app/api.js";
import { PREFIX } from "../../app/router.js";
import { memberOf, parseJson, type JsonNode } from "../../ui/json-model.js";

/** A payload as the server wrote it. */
export interface Payload {
  text: string;
  node: JsonNode;
}
export interface LoadedJob {
  job: JobDetail;
  input: Payload;
  output: Payload;
}

const last = new Map<string, { text: string; loaded: LoadedJob }>();

/** Loads a job, and keeps the text of its payloads: `response.json()` would round long numbers. */
export async function loadJob(id: string): Promise<LoadedJob> {
  let text = "";
  const client = newClient({
    url: `${location.origin}${PREFIX}`,
    fetch: async (request) => {
      const response = await send(request);
      if (response.ok) text = await response.clone().text();
      return response;
    },
  });
  const job = await client.jobs.get({ id });
  const before = last.get(id);
  // The same object, so that nothing is drawn again.
  if (before?.text === text) return before.loaded;
  const loaded = { job, input: payloadOf(text, "input"), output: payloadOf(text, "output") };
  last.clear();
  last.set(id, { text, loaded });
  return loaded;
}

function payloadOf(text: string, name: "input" | "output"): Payload {
  const { node } = parseJson(text);
  const member = node === undefined ? undefined : memberOf(node, name);
  const own = member === undefined ? "null" : text.slice(member.start, member.end);
  // Again, so that places are those in the payload's own text.
  const parsed = parseJson(own);
  return { text: own, node: parsed.node ?? { kind: "word", text: "null", start: 0, end: 4 } };
}
