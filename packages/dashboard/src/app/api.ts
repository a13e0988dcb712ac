import { signal } from "./signals.js";
import type { SessionResult } from "holdfast/admin";
import { AdminError, newClient, type RouteClient } from "#client";
import { serverNow, setServerTime } from "./now.js";
import { PREFIX } from "./router.js";

export { AdminError, type RouteClient };

/** Whether the server responds. `retryAt`: when it is called again. */
export const connection = signal<{ online: true } | { online: false; since: number; retryAt: number }>({
  online: true,
});

/** Who uses the page. `none`: no one is signed in. */
export const session = signal<SessionResult | "loading" | "none">("loading");
/** The session has ended. The page is kept as it is, until the same caller has signed in again. */
export const hasExpired = signal(false);
/** Why the server refuses to say who uses the page. */
export const refusal = signal<string | null>(null);

const ROLES = ["user", "viewer", "operator", "admin"] as const;

/** Whether the caller may do what this role may. The server decides anyway; what is not allowed is not shown. */
export function may(role: "viewer" | "operator" | "admin"): boolean {
  const { value } = session;
  if (typeof value === "string") return false;
  return value.role !== "user" && ROLES.indexOf(value.role) >= ROLES.indexOf(role);
}

/** Retry and cancel: also for the jobs of a user. */
export function mayChangeOwn(): boolean {
  const { value } = session;
  return typeof value !== "string" && value.role !== "viewer";
}

const RETRY_MS = [1_000, 2_000, 5_000, 10_000] as const;
let failures = 0;

export const api: RouteClient = newClient({ url: `${location.origin}${PREFIX}`, fetch: send });

const polled = new Map<number, RouteClient>();

/** A client whose results may be so many seconds old: for what all open pages load again and again, so that they share it. */
export function clientWithin(seconds: number): RouteClient {
  let client = polled.get(seconds);
  if (client === undefined) {
    const fetchWithin = (request: Request): Promise<Response> => {
      request.headers.set("cache-control", `max-age=${seconds}`);
      return send(request);
    };
    client = newClient({ url: `${location.origin}${PREFIX}`, fetch: fetchWithin });
    polled.set(seconds, client);
  }
  return client;
}

/** For views that need the text of a response: `fetch` that notices a lost connection and an expired session. */
export async function send(request: Request): Promise<Response> {
  const sentAt = Date.now();
  try {
    const response = await fetch(request);
    setServerTime(Number(response.headers.get("x-holdfast-time")), sentAt);
    if (response.status === 401 && typeof session.peek() === "object") hasExpired.value = true;
    // A proxy that cannot reach the server.
    if (response.status >= 502 && response.status <= 504 && !response.headers.has("x-holdfast")) goOffline();
    else goOnline();
    return response;
  } catch (error) {
    goOffline();
    throw error;
  }
}

let retry: ReturnType<typeof setTimeout> | undefined;

function goOffline(): void {
  const now = serverNow();
  const before = connection.peek();
  const delay = RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)] ?? 10_000;
  connection.value = { online: false, since: before.online ? now : before.since, retryAt: now + delay };
  clearTimeout(retry);
  retry = setTimeout(() => void api.session.get().catch(() => {}), delay);
}

function goOnline(): void {
  failures = 0;
  clearTimeout(retry);
  if (!connection.peek().online) connection.value = { online: true };
}

/** Reads who is signed in. */
export async function startSession(): Promise<void> {
  try {
    session.value = await api.session.get();
  } catch (error) {
    const status = error instanceof AdminError ? error.status : 0;
    if (status === 401) {
      session.value = "none";
      return;
    }
    // Without tokens, the server accepts only requests from its own machine.
    refusal.value = status >= 400 && status < 500 ? messageOf(error) : null;
    setTimeout(() => void startSession(), refusal.value === null ? 1_000 : 5_000);
  }
}

/** The tabs of a browser have one cookie. */
const tabs = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel(`holdfast session ${PREFIX}`);
tabs?.addEventListener("message", () => void checkSession(true));

/** Reads again who is signed in: another tab, or another server, may have changed that. `isOver`: a tab has signed in or out. */
export async function checkSession(isOver = false): Promise<void> {
  try {
    const next = await api.session.get();
    if (typeof session.peek() === "object" || isOver) continueAs(next);
  } catch (error) {
    if (isOver && error instanceof AdminError && error.status === 401) startOver();
  }
}

/** After a caller has signed in here. */
export function signedIn(next: SessionResult): void {
  tabs?.postMessage(null);
  continueAs(next);
}

export function signedOut(): void {
  tabs?.postMessage(null);
  startOver();
}

function continueAs(next: SessionResult): void {
  const { name, role, user } = next;
  const before = session.peek();
  // What the page holds of another caller is not for this one.
  if (typeof before === "object" && (before.name !== name || before.role !== role || before.user !== user))
    return startOver();
  hasExpired.value = false;
  session.value = next;
}

/** Loads the page anew, so that nothing is left of what it holds. */
function startOver(): void {
  try {
    for (const key of Object.keys(sessionStorage)) if (key.startsWith("holdfast.")) sessionStorage.removeItem(key);
  } catch {
    // Storage is disabled.
  }
  location.reload();
}

/** A sentence for people. */
export function messageOf(error: unknown): string {
  if (error instanceof AdminError) {
    const { code, message } = error;
    if (code === "SERVER_UNREACHABLE") return "The server does not respond.";
    if (code === "UNAUTHENTICATED") return "Your session has expired.";
    return sentence(message);
  }
  return sentence(error instanceof Error ? error.message : String(error));
}

function sentence(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}
