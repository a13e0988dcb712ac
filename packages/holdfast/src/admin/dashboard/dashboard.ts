import { gunzipSync } from "node:zlib";
import { ApiError } from "../http/api-error.js";

/** The paths of views: each serves the same page. */
const VIEW = /^\/(?:(?:jobs|failures|schedules)(?:\/[^/]+)?|queues|workers|audit|tokens|login)?$/;
const ASSETS = "/assets/";

/**
 * Nothing is loaded from another host, nothing inline runs, and no other site can frame the page or make it send a form. Scripts
 * cannot turn strings into markup: what jobs contain is only ever text.
 */
const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

const HEADERS: Readonly<Record<string, string>> = {
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
};
// The names of files change with their contents.
const FOREVER = "public, max-age=31536000, immutable";

export function isView(path: string): boolean {
  return VIEW.test(path);
}

export function isAsset(path: string): boolean {
  return path.startsWith(ASSETS);
}

/** Whether a browser asks for a page, and not a program for data. */
export function wantsPage(request: Request): boolean {
  return /\btext\/html\b/.test(request.headers.get("accept") ?? "");
}

/** The module of the view at a path; null: the first one has it. */
function moduleOf(path: string): "job" | "more" | null {
  if (path === "/" || path === "/jobs") return null;
  return path.startsWith("/jobs/") ? "job" : "more";
}

/**
 * The page of all views: they differ in what the browser loads first. Its files are below the base path, whatever the depth of the
 * view's URL.
 */
export async function pageResponse(basePath: string, path: string): Promise<Response> {
  const { ENTRY } = await import("./files.js");
  const url = (name: string): string => `${basePath}${ASSETS}${name}`;
  const module = moduleOf(path);
  const preload = new Set([...ENTRY.preload, ...(module === null ? [] : ENTRY.views[module])]);
  const links = [
    ...ENTRY.styles.map((name) => `<link rel="stylesheet" href="${url(name)}">`),
    `<script type="module" src="${url(ENTRY.script)}"></script>`,
    ...[...preload].map((name) => `<link rel="modulepreload" href="${url(name)}">`),
  ];
  const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta name="color-scheme" content="light dark">
<title>Holdfast</title>
<link rel="icon" href="data:,">
${links.join("\n")}
</head>
<body><div id="app"></div><noscript>This page needs JavaScript.</noscript></body>
</html>
`;
  const headers = {
    ...HEADERS,
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": PAGE_POLICY,
    "cache-control": "no-cache",
  };
  return new Response(page, { headers });
}

/** A script or style sheet of the page, compressed as the client accepts it. */
export async function assetResponse(request: Request, path: string): Promise<Response> {
  const { FILES } = await import("./files.js");
  const name = path.slice(ASSETS.length);
  const file = Object.hasOwn(FILES, name) ? FILES[name] : undefined;
  if (file === undefined) throw new ApiError(404, "ROUTE_NOT_FOUND", `no file ${name.slice(0, 200)}; reload the page`);
  const headers: Record<string, string> = {
    ...HEADERS,
    "content-type": file.type,
    "cache-control": FOREVER,
    vary: "accept-encoding",
  };
  const gzip = Buffer.from(file.gzip, "base64");
  const isAccepted = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:\s*,|\s*$))/.test(request.headers.get("accept-encoding") ?? "");
  // Next.js removes `content-encoding` from responses of route handlers, and compresses them itself.
  if (!isAccepted || "nextUrl" in request) return new Response(new Uint8Array(gunzipSync(gzip)), { headers });
  return new Response(new Uint8Array(gzip), { headers: { ...headers, "content-encoding": "gzip" } });
}
