import { Hono } from "hono";
import { z } from "zod";
import { noticePage } from "../pages/notice.js";
import { forgotPage, newPasswordPage } from "../pages/password.js";
import { hashPassword } from "../passwords.js";
import type { Site } from "../site.js";
import { password, readForm } from "./form.js";
import { signIn, type PageEnv } from "./visitor.js";

const FORGOTTEN = z.object({ email: z.string() });
const NEW_PASSWORD = z.object({ token: z.string().max(200), password });

export function passwordRoutes(site: Site): Hono<PageEnv> {
  const { db, hf, members, reset, sessions } = site;
  const routes = new Hono<PageEnv>();

  /** The token is used up, the password is changed and all sessions end: all of it, or nothing. */
  const changePassword = db.transaction((token: string, hash: string) => {
    const member = reset.consumeIn(db, token);
    if (member === null) return null;
    members.setPassword(member, hash);
    sessions.endAll(member);
    return member;
  });

  routes.get("/password/forgot", (c) => c.html(forgotPage()));
  routes.post("/password/forgot", async (c) => {
    const { fields, problem } = readForm(FORGOTTEN, await c.req.parseBody());
    if (fields === null) return c.html(forgotPage(problem), 400);
    const result = await reset.requestFor(hf, fields.email, { signal: c.req.raw.signal });
    switch (result.status) {
      case "accepted":
        return c.html(
          noticePage("Look into your inbox", "If there is an account with this address, it gets a mail."),
          202,
        );
      case "limited":
        return c.html(forgotPage(`That was often. Try again in ${minutes(result.retryAfterMs)}.`), 429);
      case "invalid":
        return c.html(forgotPage("Enter an address such as ada@example.com."), 400);
    }
  });

  routes.get("/password/reset", (c) => c.html(newPasswordPage(c.req.query("token") ?? "")));
  routes.post("/password/reset", async (c) => {
    const form = await c.req.parseBody();
    const { fields, problem } = readForm(NEW_PASSWORD, form);
    const token = typeof form["token"] === "string" ? form["token"] : "";
    if (fields === null) return c.html(newPasswordPage(token, problem), 400);
    // Hashing takes time, and a transaction on SQLite cannot wait.
    const member = changePassword.immediate(fields.token, await hashPassword(fields.password));
    if (member === null) return c.html(forgotPage("The link was used, or has expired. Ask for a new one."), 410);
    signIn(c, site, member);
    return c.redirect("/account?done=password", 303);
  });
  return routes;
}

function minutes(ms: number): string {
  const count = Math.ceil(ms / 60_000);
  return count === 1 ? "a minute" : `${count} minutes`;
}
