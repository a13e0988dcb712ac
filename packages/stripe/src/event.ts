/** The parts of a Stripe event that this package reads. `Stripe.Event` of the stripe package fits. */
export interface AnyStripeEvent {
  readonly id: string;
  readonly type: string;
  /** Seconds since 1970. Stripe delivers events in any order. */
  readonly created: number;
  readonly livemode: boolean;
  /** The connected account it comes from; absent for your own. */
  readonly account?: string | undefined;
  /** The version of Stripe's API that `data` has the shape of. */
  readonly api_version?: string | null | undefined;
  readonly data: { readonly object: object };
}

/** An object of Stripe, such as an invoice. */
export interface StripeObject {
  readonly object: string;
  readonly id?: string;
  readonly [field: string]: unknown;
}

/** A Stripe event whose object has no type. For types pass `Stripe.Event`: `stripe<Stripe.Event, typeof db>({ db, … })`. */
export interface StripeEvent extends AnyStripeEvent {
  readonly data: { readonly object: StripeObject; readonly previous_attributes?: Readonly<Record<string, unknown>> };
}

const MAX_LENGTH = 255;

/** The event, or why it is none. Its fields that this package reads are checked. */
export function readEvent(value: unknown): StripeEvent | { readonly problem: string } {
  const event = value as Partial<Record<keyof StripeEvent | "object", unknown>> | null;
  if (typeof event !== "object" || event === null) return { problem: "the body is not a JSON object" };
  if (event.object === "v2.core.event") {
    return { problem: "this is a thin event; create an event destination with snapshot payloads" };
  }
  if (event.object !== "event") return { problem: "the body is not a Stripe event" };
  for (const field of ["id", "type"] as const) {
    if (!isName(event[field])) return { problem: `the event has no ${field}` };
  }
  if (!Number.isSafeInteger(event.created)) return { problem: "the event has no time of creation" };
  if (typeof event.livemode !== "boolean") return { problem: "the event has no livemode" };
  if (event.account != null && !isName(event.account)) return { problem: "the event has no valid account" };
  const data = event.data as { object?: unknown } | null | undefined;
  if (typeof data?.object !== "object" || data.object === null) return { problem: "the event has no data.object" };
  return event as StripeEvent;
}

function isName(value: unknown): boolean {
  return typeof value === "string" && /^[\w.-]+$/.test(value) && value.length <= MAX_LENGTH;
}

/** Which events are accepted. */
export interface EventFilter {
  /** Only events of this connected account; null: only of your own account. Default: of every account. */
  readonly account?: string | null;
  /** Only live events (`true`), or only test events (`false`). Default: both. */
  readonly livemode?: boolean;
}

/** The field because of which the filter refuses an event; null if it accepts it. */
export function refusalOf(
  { account, livemode }: EventFilter,
  event: Pick<AnyStripeEvent, "account" | "livemode">,
): "account" | "livemode" | null {
  if (livemode !== undefined && event.livemode !== livemode) return "livemode";
  if (account !== undefined && (event.account ?? null) !== account) return "account";
  return null;
}
