import { newClient } from "#client";
import { memberOf, parseJson, type JsonNode } from "../ui/json-model.js";
import { send, type RouteClient } from "./api.js";
import { PREFIX } from "./router.js";

/** A payload as the server wrote it. */
export interface Payload {
  text: string;
  node: JsonNode;
}

/** A result and its text, which has all digits of its numbers: `response.json()` would round long ones. */
export async function loadText<T>(call: (client: RouteClient) => Promise<T>): Promise<[result: T, text: string]> {
  let text = "";
  const client = newClient({
    url: `${location.origin}${PREFIX}`,
    fetch: async (request) => {
      const response = await send(request);
      if (response.ok) text = await response.clone().text();
      return response;
    },
  });
  return [await call(client), text];
}

export function payloadOf(text: string, name: "input" | "output"): Payload {
  const { node } = parseJson(text);
  const member = node === undefined ? undefined : memberOf(node, name);
  const own = member === undefined ? "null" : text.slice(member.start, member.end);
  // Again, so that places are those in the payload's own text.
  const parsed = parseJson(own);
  return { text: own, node: parsed.node ?? { kind: "word", text: "null", start: 0, end: 4 } };
}
