import { Hono } from "hono";
import type { Site } from "../site.js";

/** Routes for programs. */
export function apiRoutes({ hf, reset, payments }: Site): Hono {
  const requestReset = reset.request(hf);
  const receiveEvent = payments.webhook(hf);
  return new Hono()
    .post("/api/v1/auth/password-reset/request", ({ req }) => requestReset(req.raw))
    .post("/api/v1/webhooks/stripe", ({ req }) => receiveEvent(req.raw));
}
