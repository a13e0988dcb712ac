import type { Bench, Case } from "../case.js";
import { KNOWN, RESET_PATH } from "../site.js";
import { drainingRows, drainingTrials, type Call } from "./routes.js";

const MAX_MS = 100;

/** A request for a password reset. */
export function resetCall(email: string): Call {
  const body = JSON.stringify({ email });
  const headers = { "content-type": "application/json", "content-length": String(body.length) };
  return { path: RESET_PATH, body, headers, expect: 202 };
}

/** Password resets are requested over HTTP, each for another address: the limit is per address. */
export function passwordReset(bench: Bench): Case {
  const trials = drainingTrials(bench, "password reset", (index) => resetCall(`user${index}${KNOWN}`));
  return {
    name: "password-reset",
    trials: Object.values(trials),
    read: (samples) => drainingRows(trials, samples, MAX_MS),
  };
}
