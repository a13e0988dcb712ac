import { createHmac } from "node:crypto";
import type { Bench, Case } from "../case.js";
import { STRIPE_PATH, STRIPE_SECRET } from "../site.js";
import { drainingRows, drainingTrials, type Call } from "./routes.js";

const MAX_MS = 50;
/** About the size of an invoice with a few lines. */
const BODY_BYTES = 6_000;

/** Stripe's webhook is called over HTTP with signed events, each with another id. */
export function stripeWebhook(bench: Bench): Case {
  const trials = drainingTrials(bench, "Stripe webhook", eventCall);
  return {
    name: "stripe-webhook",
    trials: Object.values(trials),
    read: (samples) => drainingRows(trials, samples, MAX_MS),
  };
}

function eventCall(index: number): Call {
  const created = Math.floor(Date.now() / 1_000);
  const object = { object: "invoice", id: `in_${index}`, customer: `cus_${index}`, lines: "x".repeat(BODY_BYTES) };
  const event = {
    id: `evt_${index}`,
    object: "event",
    type: "invoice.paid",
    created,
    livemode: false,
    data: { object },
  };
  const body = JSON.stringify(event);
  const signature = createHmac("sha256", STRIPE_SECRET).update(`${created}.${body}`).digest("hex");
  const headers = {
    "content-type": "application/json",
    "content-length": String(body.length),
    "stripe-signature": `t=${created},v1=${signature}`,
  };
  return { path: STRIPE_PATH, body, headers, expect: 200 };
}
