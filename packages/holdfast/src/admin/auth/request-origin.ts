import { ApiError } from "../http/api-error.js";
import { hostnameOf, isLoopback, isLoopbackAddress } from "./loopback.js";

/**
 * CSRF protection: rejects requests that a page of another site sends from the browser of a logged-in user. Browsers send
 * `Sec-Fetch-Site`, older ones only `Origin`. Other HTTP clients send neither, and have no cookie that could be abused.
 */
export function rejectCrossSite(request: Request): void {
  const site = request.headers.get("sec-fetch-site");
  if (site !== null && site !== "same-origin" && site !== "none") throw crossSite();
  // Trust the browser here: behind a proxy, `Host` may differ from the host of the page, so comparing it with `Origin` would fail.
  if (site === "same-origin") return;
  const origin = request.headers.get("origin");
  if (origin === null) return;
  const host = request.headers.get("host") ?? new URL(request.url).host;
  if (!URL.canParse(origin) || new URL(origin).host !== host) throw crossSite();
}

function crossSite(): ApiError {
  return new ApiError(
    403,
    "CROSS_SITE_REQUEST",
    "cross-site request rejected; call the API from the site that serves it, or from a server",
  );
}

/** Behind a proxy on this machine, every request comes from localhost. These headers reveal the proxy. */
const FORWARDED = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"] as const;

/**
 * Without tokens, only requests from this machine are accepted. Checking `Host` alone is not enough: a remote client can send any
 * value. Checking the address alone is not enough either: with DNS rebinding, a web page open on this machine can reach the
 * server under its own host name. `peer`: the remote address of the connection; null: unknown.
 */
export function requireLocalhost(request: Request, peer: string | null): void {
  if (peer !== null && !isLoopbackAddress(peer)) {
    throw new ApiError(403, "NOT_LOCALHOST", "requests from other machines require an API token; none exists yet");
  }
  const proxied = FORWARDED.find((name) => request.headers.has(name));
  if (proxied !== undefined) {
    throw new ApiError(
      403,
      "PROXY_NOT_ALLOWED",
      `requests through a proxy require an API token (found header ${proxied})`,
    );
  }
  const host = request.headers.get("host") ?? new URL(request.url).host;
  if (isLoopback(hostnameOf(host))) return;
  throw new ApiError(
    403,
    "HOST_NOT_ALLOWED",
    `host ${host.slice(0, 100)} is not allowed without API tokens; use localhost, or create a token`,
  );
}
