/** Stripe webhooks: a route that verifies and stores events, and a job that processes each once. */
export { isStripePack, stripe } from "./stripe.js";
export type { CommonOptions, DatabaseOption, StripeOptions, StripePack } from "./stripe.js";
export { callStripe } from "./api.js";
export type { StripeCall, StripeClient } from "./api.js";
export { effect } from "./effects.js";
export type {
  AnyDb,
  Effect,
  EffectContext,
  EffectFunction,
  Effects,
  EventOf,
  Latest,
  LoadContext,
  LoadedEffect,
  TransactionOf,
} from "./effects.js";
export type { AnyStripeEvent, EventFilter, StripeEvent, StripeObject } from "./event.js";
export type { ProcessInput, ProcessOutput } from "./process.js";
export { EventNotFoundError } from "./replay.js";
export type { ReplayClient, ReplayOptions, ReplayResult } from "./replay.js";
export type { EnqueueClient } from "./store-event.js";

/** Paths for the option `redact` of `holdfast()`: customers' names, addresses and payments in the payload of events. */
export const redact: readonly string[] = ["input.payload.data"];
