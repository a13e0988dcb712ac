import { answerTo } from "./api-error.js";
import { MARK } from "../contract/routes.js";

/** A page that somebody makes of an answer can load nothing, run nothing and be framed by nobody. */
export const HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-store",
  [MARK]: "admin",
};

export function jsonResponse(
  body: unknown,
  status: number,
  headers: Readonly<Record<string, string>> | Headers = {},
): Response {
  const all = new Headers({ ...HEADERS, "content-type": "application/json" });
  // A cookie is added to those there are.
  for (const [name, value] of headers instanceof Headers ? headers : Object.entries(headers)) all.append(name, value);
  return new Response(JSON.stringify(body), { status, headers: all });
}

/** Null: the error is a fault of the server's own. */
export function errorResponse(error: unknown): Response | null {
  const known = answerTo(error);
  return known === null ? null : jsonResponse(known.body, known.status, known.headers);
}
