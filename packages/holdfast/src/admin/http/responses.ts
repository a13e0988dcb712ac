import { errorResultOf } from "./api-error.js";
import { stringify } from "./raw-json.js";
import { HOLDFAST_HEADER } from "../contract/routes.js";

/** If a browser renders a response as a page, that page cannot load or run anything, and cannot be framed. */
export const HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-store",
  [HOLDFAST_HEADER]: "admin",
};

export function jsonResponse(
  body: unknown,
  status: number,
  headers: Readonly<Record<string, string>> | Headers = {},
): Response {
  const all = new Headers({ ...HEADERS, "content-type": "application/json" });
  // Append, because there may be several set-cookie headers.
  for (const [name, value] of headers instanceof Headers ? headers : Object.entries(headers)) all.append(name, value);
  return new Response(stringify(body), { status, headers: all });
}

/** Null: an internal error. */
export function errorResponse(error: unknown): Response | null {
  const known = errorResultOf(error);
  return known === null ? null : jsonResponse(known.body, known.status, known.headers);
}
