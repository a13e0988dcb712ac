import { Hono } from "hono";
import { noticePage } from "../pages/notice.js";
import type { Site } from "../site.js";

/**
 * The link in each newsletter. Mail programs send the form by themselves when the reader presses their own button (RFC 8058): without a
 * cookie, and from another site.
 */
export function unsubscribeRoutes({ members }: Site): Hono {
  const routes = new Hono();
  routes.get("/unsubscribe/:key", (c) => {
    if (members.byUnsubscribeKey(c.req.param("key")) === null) return c.notFound();
    return c.html(noticePage("Unsubscribe", "You will get no more newsletters.", { submit: "Unsubscribe" }));
  });
  routes.post("/unsubscribe/:key", (c) => {
    const member = members.byUnsubscribeKey(c.req.param("key"));
    if (member === null) return c.notFound();
    members.setNewsletter(member.id, false);
    return c.html(noticePage("Unsubscribed", "You get no more newsletters."));
  });
  return routes;
}
