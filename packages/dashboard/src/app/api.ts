import { signal } from "@preact/signals";
import type { AdminClient, SessionResult } from "holdfast/admin";
import { AdminError, newClient } from "#client";
import { PREFIX } from "./router.js";

export { AdminError };

/** Whether the server responds. `retryAt`: when it is called again. */
export const connection = signal<{ online: true } | { online: false; since: number; retryAt: number }>({
  online: true,
});

/** Who uses the page. `none`: no one is signed in. `expired`: the session has ended, and the page is kept. */
export const session = signal<SessionResult | "loading" | "none" | "expired">("loading");

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

export const api: AdminClient = newClient({ url: `${location.origin}${PREFIX}`, fetch: send });

/** For views that need the text of a response: `fetch` that notices a lost connection and an expired session. */
export async function send(request: Request): Promise<Response> {
  try {
    const response = await fetch(request);
    if (response.status === 401 && typeof session.peek() === "object") session.value = "expired";
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
  const now = Date.now();
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
    if (error instanceof AdminError && error.status === 401) session.value = "none";
    else setTimeout(() => void startSession(), 1_000);
  }
}

/** A sentence for people. */
export function messageOf(error: unknown): string {
  if (error instanceof AdminError) {
    const { code, message } = error;
    if (code === "SERVER_UNREACHABLE") return "The server does not respond.";
    return sentence(message);
  }
  return sentence(error instanceof Error ? error.message : String(error));
}

function sentence(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}
