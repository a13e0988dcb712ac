import { InvalidOptionError, NotRetryable, RetryAfter } from "holdfast";
import { requirePeer } from "holdfast/pack";
import { readEvent, type AnyStripeEvent, type StripeEvent } from "./event.js";

/** The part of Stripe's client that this package calls. `new Stripe(key)` of the stripe package fits. */
export interface StripeClient {
  rawRequest(
    method: string,
    path: string,
    params?: Record<string, unknown>,
    options?: { apiVersion?: string; stripeAccount?: string; timeout?: number; maxNetworkRetries?: number },
  ): Promise<unknown>;
}

const TIMEOUT_MS = 20_000;

/** A client for a secret key, or the client that was given. */
export function readApi(api: string | StripeClient | undefined): StripeClient | null {
  if (api === undefined) return null;
  if (typeof api === "string" && api !== "") {
    const Stripe = requirePeer<new (key: string, config: object) => StripeClient>("stripe", import.meta.url);
    return new Stripe(api, { timeout: TIMEOUT_MS, maxNetworkRetries: 0, telemetry: false });
  }
  if (typeof (api as StripeClient | null)?.rawRequest === "function") return api as StripeClient;
  throw new InvalidOptionError("api", "must be a secret key of Stripe, or a client of the stripe package");
}

/** An event of the last 30 days; null if Stripe has no such event. */
export async function retrieveEvent(
  api: StripeClient,
  id: string,
  { account, signal }: { account?: string | null | undefined; signal?: AbortSignal } = {},
): Promise<StripeEvent | null> {
  const found = await get(api, `/v1/events/${encodeURIComponent(id)}`, { account, signal });
  if (found === null) return null;
  const event = readEvent(found);
  if ("problem" in event) throw new Error(`Stripe returned an invalid event: ${event.problem}`);
  return event;
}

/** The object of an event as it is now, in the shape that the event has; null if it was deleted. */
export async function retrieveLatest<Thing>(
  api: StripeClient | null,
  thing: Thing,
  { event, signal }: { event: AnyStripeEvent; signal: AbortSignal },
): Promise<Thing | null> {
  if (api === null) throw new NotRetryable("latest() needs the option api: a secret key of Stripe, or a client");
  const { object, id } = (thing ?? {}) as { object?: unknown; id?: unknown };
  if (typeof object !== "string" || !/^[a-z_]+(?:\.[a-z_]+)*$/.test(object) || typeof id !== "string" || id === "") {
    throw new NotRetryable("latest() needs an object of Stripe with an id, such as event.data.object");
  }
  // `checkout.session` is at /v1/checkout/sessions. Stripe refuses the few objects that have no path of their own.
  const path = `/v1/${object.replaceAll(".", "/")}s/${encodeURIComponent(id)}`;
  const options = { account: event.account, version: event.api_version, signal };
  const found = (await get(api, path, options)) as (Thing & { deleted?: unknown }) | null;
  // Of some objects, such as customers, Stripe keeps the id.
  return found?.deleted === true ? null : found;
}

interface GetOptions {
  account?: string | null | undefined;
  version?: string | null | undefined;
  signal?: AbortSignal | undefined;
}

async function get(api: StripeClient, path: string, { account, version, signal }: GetOptions): Promise<unknown> {
  const request = (): Promise<unknown> =>
    api.rawRequest("GET", path, undefined, {
      timeout: TIMEOUT_MS,
      // The job is retried, so no retries in between, which would wait.
      maxNetworkRetries: 0,
      ...(account != null && { stripeAccount: account }),
      ...(version != null && { apiVersion: version }),
    });
  const action = `GET ${path.slice(0, path.lastIndexOf("/"))}`;
  return callStripe(request, { action, ...(signal !== undefined && { signal }) });
}

/** Options of {@link callStripe}. */
export interface StripeCall {
  /** What the call does, for the message of an error: without ids and names of customers. */
  readonly action: string;
  /** The signal of the job. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Calls Stripe's client in a job, and makes of its errors what the job does about them: a rate limit with a time is `RetryAfter`, an error that
 * a retry cannot change is `NotRetryable`, any other is retried. Returns null if the object does not exist. Ends with the signal.
 *
 * ```ts
 * await callStripe(() => sdk.subscriptions.cancel(id, {}, { idempotencyKey }), { action: "cancel a subscription", signal });
 * ```
 */
export async function callStripe<Value>(
  request: () => Promise<Value>,
  { action, signal }: StripeCall,
): Promise<Value | null> {
  signal?.throwIfAborted();
  try {
    return await untilAborted(request(), signal);
  } catch (error) {
    if (signal?.aborted === true) throw signal.reason;
    const translated = translate(error, action);
    if (translated === null) return null;
    throw translated;
  }
}

/** Stripe's client takes no signal: the request goes on for at most its timeout, and its result is ignored. */
async function untilAborted<Value>(request: Promise<Value>, signal: AbortSignal | undefined): Promise<Value> {
  if (signal === undefined) return request;
  let onAbort = (): void => {};
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(new Error("aborted"));
    signal.addEventListener("abort", onAbort);
  });
  request.catch(() => {});
  try {
    return await Promise.race([request, aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** What the job does about an error of Stripe's client; null: the object does not exist. The error itself has parts of the response. */
function translate(error: unknown, action: string): Error | null {
  const { statusCode, code, type, message, headers } = (error ?? {}) as {
    [Field in "statusCode" | "code" | "type" | "message"]?: unknown;
  } & { headers?: Record<string, unknown> };
  const name = [code, type].find((each) => typeof each === "string") ?? "error";
  const text = `Stripe: ${String(message)} (${String(name)}, ${action})`;
  if (statusCode === 404 && code === "resource_missing") return null;
  if (statusCode === 429) {
    const seconds = Number(headers?.["retry-after"] ?? Number.NaN);
    return seconds > 0 && seconds <= 86_400 ? new RetryAfter(Math.ceil(seconds * 1_000), text) : new Error(text);
  }
  const isFinal = typeof statusCode === "number" && statusCode >= 400 && statusCode < 500;
  return isFinal && ![408, 409, 425].includes(statusCode) ? new NotRetryable(text) : new Error(text);
}
