import { Hono } from "hono";
import { isPlan } from "../config.js";
import type { Site } from "../site.js";
import { membersOnly, type MemberEnv, type PageEnv } from "./visitor.js";

export function membershipRoutes({ config, endMembership, hf, memberships, stripe, url }: Site): Hono<PageEnv> {
  const routes = new Hono<MemberEnv>();
  routes.use("/membership/*", membersOnly());

  // The visitor waits for the address of the payment page, so this calls Stripe at once. All else is done by jobs.
  routes.post("/membership/join", async (c) => {
    const { plan } = await c.req.parseBody();
    if (!isPlan(plan)) return c.notFound();
    const { id, email } = c.get("member");
    if (memberships.entitlementsOf(id).length > 0) return c.redirect("/account", 303);
    const session = await stripe.checkout.sessions.create({
      mode: "subscription",
      customer_email: email,
      line_items: [{ price: config.stripe.prices[plan], quantity: 1 }],
      // Comes back in each event of the subscription.
      subscription_data: { metadata: { member: id } },
      success_url: `${url}/account?done=paid`,
      cancel_url: `${url}/account`,
    });
    return session.url === null ? c.notFound() : c.redirect(session.url, 303);
  });

  routes.post("/membership/end", async (c) => {
    const member = c.get("member").id;
    // Two clicks are one job.
    await hf.enqueue(endMembership, { member }, { unique: `membership.end:${member}` });
    return c.redirect("/account?done=ending", 303);
  });
  return routes as unknown as Hono<PageEnv>;
}
