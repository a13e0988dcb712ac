import { Hono } from "hono";
import { z } from "zod";
import { accountPage } from "../pages/account.js";
import type { Site } from "../site.js";
import { readForm } from "./form.js";
import { membersOnly, type MemberEnv, type PageEnv } from "./visitor.js";

/** A real site gets the id from Discord, when the member signs in there (OAuth). */
const DISCORD = z.object({ discordId: z.string().regex(/^\d{5,20}$/, "The id of a Discord account has only digits.") });

export function accountRoutes({ db, hf, members, memberships, roles }: Site): Hono<PageEnv> {
  const routes = new Hono<MemberEnv>();
  routes.use("/account/*", membersOnly());

  const linkDiscord = db.transaction((member: string, discordId: string | null) => {
    const former = members.byId(member)?.discordId ?? null;
    if (!members.setDiscord(member, discordId)) return false;
    if (discordId !== null) void roles.sync(hf, member, { tx: db });
    // One membership gives roles to one account.
    if (former !== null && former !== discordId) void roles.syncAccount(hf, former, { tx: db });
    return true;
  });

  routes.get("/account", (c) => {
    const member = c.get("member");
    const done = c.req.query("done");
    return c.html(accountPage(member, { membership: memberships.of(member.id), done }));
  });
  routes.post("/account/discord", async (c) => {
    const member = c.get("member");
    const membership = memberships.of(member.id);
    const { fields, problem } = readForm(DISCORD, await c.req.parseBody());
    if (fields === null) return c.html(accountPage(member, { membership, problem }), 400);
    if (linkDiscord.immediate(member.id, fields.discordId)) return c.redirect("/account?done=discord", 303);
    return c.html(accountPage(member, { membership, problem: "Another member linked this Discord account." }), 409);
  });
  routes.post("/account/discord/unlink", (c) => {
    linkDiscord.immediate(c.get("member").id, null);
    return c.redirect("/account?done=unlinked", 303);
  });
  // For members who have joined the server since. A job does so every day too.
  routes.post("/account/discord/roles", async (c) => {
    await roles.sync(hf, c.get("member").id);
    return c.redirect("/account?done=roles", 303);
  });
  routes.post("/account/newsletter", async (c) => {
    const { newsletter } = await c.req.parseBody();
    members.setNewsletter(c.get("member").id, newsletter === "on");
    return c.redirect("/account?done=newsletter", 303);
  });
  return routes as unknown as Hono<PageEnv>;
}
