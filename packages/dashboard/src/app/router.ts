import { signal, type ReadonlySignal } from "./signals.js";

/** Where the dashboard is mounted: the script is at `<prefix>/assets/<name>.js`. No trailing slash. */
export const PREFIX: string = new URL("..", import.meta.url).pathname.replace(/\/$/, "");

/** A view and its filter. Every view is a URL that can be shared. */
export interface Route {
  /** Without the prefix: `/jobs`, `/jobs/0199…`. */
  path: string;
  /** The path in parts, decoded: `["jobs", "0199…"]`. */
  parts: readonly string[];
  query: URLSearchParams;
}

const current = signal<Route>(read());
export const route: ReadonlySignal<Route> = current;

/** The URL of a view, for links. */
export function hrefOf(path: string, query: Readonly<Record<string, string | undefined>> = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => (entry[1] ?? "") !== "");
  const text = new URLSearchParams(given).toString();
  return `${PREFIX}${path}${text === "" ? "" : `?${text}`}`;
}

/** Shows another view. `replace`: without a new entry in the browser's history. */
export function go(href: string, { replace = false } = {}): void {
  const url = new URL(href, location.href);
  if (url.href === location.href) return;
  const isOtherView = url.pathname !== location.pathname;
  // A view of one thing leads back to the list that it was opened from, also after it is loaded again.
  const list = current.peek().parts.length > 1 ? (history.state as unknown) : location.pathname + location.search;
  history[replace ? "replaceState" : "pushState"](list, "", url);
  current.value = read();
  if (isOtherView) scrollTo(0, 0);
}

/** The list of a view, as it was when one of its things was opened. */
export function listHref(name: string): string {
  const href = hrefOf(`/${name}`);
  const list = String(history.state);
  return list.split("?")[0] === href ? list : href;
}

/** Changes parts of the query of this view. Null removes one. */
export function setQuery(changes: Readonly<Record<string, string | null>>, options?: { replace?: boolean }): void {
  const query = new URLSearchParams(current.peek().query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  go(`${location.pathname}${text === "" ? "" : `?${text}`}`, options);
}

/** Follows the browser's history, and links to other views without loading the page again. */
export function startRouter(): void {
  addEventListener("popstate", () => (current.value = read()));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element).closest?.("a[href]");
    if (!(link instanceof HTMLAnchorElement) || link.target !== "" || link.download !== "") return;
    if (link.origin !== location.origin || !isOwnPath(link.pathname)) return;
    event.preventDefault();
    go(link.href);
  });
}

function isOwnPath(path: string): boolean {
  return path.startsWith(`${PREFIX}/`) && !path.startsWith(`${PREFIX}/api/`);
}

function read(): Route {
  const path = location.pathname.slice(PREFIX.length).replace(/\/+$/, "") || "/";
  const parts = path.split("/").slice(1).map(decode);
  return { path, parts: path === "/" ? [] : parts, query: new URLSearchParams(location.search) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
