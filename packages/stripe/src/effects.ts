import type { HandlerClient, JobSignal } from "holdfast";
import { InvalidOptionError } from "holdfast";
import type { PostgresPool, SqliteDatabase } from "holdfast/pack";
import type { AnyStripeEvent } from "./event.js";

/** What an effect gets besides its event. */
export interface EffectContext<Tx = unknown> extends LoadContext {
  /**
   * The open transaction: the client of the pool on PostgreSQL, your database on SQLite, undefined without `db`. Write with it,
   * and pass it as `tx` when you enqueue jobs.
   */
  readonly tx: Tx;
}

/** What `load` of an effect gets besides its event. */
export interface LoadContext {
  /** The same in all attempts. Pass it to other services. */
  readonly idempotencyKey: string;
  /** Aborted on cancellation, timeout, lost lease and shutdown. */
  readonly signal: JobSignal;
  /** Enqueues jobs. */
  readonly hf: HandlerClient;
  /**
   * Fetches the object as it is now, in the shape of the event's API version; null if it was deleted. Needs the option `api`.
   * With a database, call it in `load`: see {@link effect}.
   */
  readonly latest: Latest;
}

/** Fetches an object of Stripe as it is now. */
export type Latest = <Thing extends { readonly object: string }>(thing: Thing) => Promise<Thing | null>;

/**
 * Called with an event. On PostgreSQL it may be asynchronous. On SQLite it must be synchronous: a function that returns a promise,
 * such as an `async` function, makes the job dead and changes nothing.
 */
export type EffectFunction<Event, Tx> = (event: Event, context: EffectContext<Tx>) => unknown;

/** An effect in two parts: see {@link effect}. */
export interface LoadedEffect<Event, Tx> {
  readonly load: (event: Event, context: LoadContext) => unknown;
  readonly apply: (event: Event, context: EffectContext<Tx> & { readonly loaded: never }) => unknown;
}

export type Effect<Event, Tx> = EffectFunction<Event, Tx> | LoadedEffect<Event, Tx>;

/** Effects by the type of their events. */
export type Effects<Event extends AnyStripeEvent, Tx> = {
  readonly [Type in Event["type"]]?: Effect<EventOf<Event, Type>, Tx>;
};

/** The event of a type. If types are only strings, every event. */
export type EventOf<Event extends AnyStripeEvent, Type extends string> = string extends Event["type"]
  ? Event
  : Extract<Event, { type: Type }>;

/** The databases that events can be stored in; undefined: none. */
export type AnyDb = SqliteDatabase | PostgresPool | undefined;

/** The transaction of a database: the client of a pool, or the SQLite database itself. The first form is that of `pg`. */
export type TransactionOf<Db> = Db extends {
  connect: { (): Promise<infer Client>; (callback: never): unknown };
}
  ? Client
  : Db extends { connect(): Promise<infer Client> }
    ? Client
    : Db;

/**
 * An effect that needs something from elsewhere. `load` runs before the transaction, and may wait. `apply` runs in it, with what `load`
 * returned. Another event may be applied in between, with something newer: where that matters, compare a version of your row. Without type arguments of `stripe` the compiler does not know the type of `tx` here.
 *
 * ```ts
 * "customer.subscription.updated": effect({
 *   load: (event, { latest }) => latest(event.data.object),
 *   apply: (event, { tx, loaded }) => save(tx, loaded),
 * }),
 * ```
 */
export function effect<Event, Tx, Loaded>(definition: {
  load: (event: Event, context: LoadContext) => Loaded | Promise<Loaded>;
  apply: (event: Event, context: EffectContext<Tx> & { readonly loaded: Loaded }) => unknown;
}): LoadedEffect<Event, Tx> {
  return definition;
}

/** An effect as it is called, whatever its types were. */
export interface CheckedEffect {
  readonly load: ((event: unknown, context: LoadContext) => unknown) | null;
  readonly apply: (event: unknown, context: EffectContext & { readonly loaded: unknown }) => unknown;
}

export function readEffects(on: object): ReadonlyMap<string, CheckedEffect> {
  if (typeof on !== "object" || on === null || Array.isArray(on)) {
    throw new InvalidOptionError("on", "must be an object with a function for each type of event");
  }
  return new Map(
    Object.entries(on).flatMap(([type, given]) => (given === undefined ? [] : [[type, readEffect(type, given)]])),
  );
}

function readEffect(type: string, given: unknown): CheckedEffect {
  if (typeof given === "function") return { load: null, apply: given as CheckedEffect["apply"] };
  const { load, apply } = (given ?? {}) as Partial<CheckedEffect>;
  if (typeof load === "function" && typeof apply === "function") return { load, apply };
  throw new InvalidOptionError(`on.${type}`, "must be a function, or the result of effect({ load, apply })");
}
