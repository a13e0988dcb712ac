import { Hono } from "hono";
import { z } from "zod";
import { noticePage } from "../pages/notice.js";
import { signInPage, signUpPage } from "../pages/sign-in.js";
import { hashPassword, isPassword } from "../passwords.js";
import type { Site } from "../site.js";
import { email, password, readForm } from "./form.js";
import { signIn, signOut, type PageEnv } from "./visitor.js";

const SIGN_UP = z.object({
  name: z.string().trim().min(1, "Enter your name.").max(100),
  email,
  password,
  newsletter: z.literal("on").optional(),
});
const SIGN_IN = z.object({ email: z.string().trim().max(200), password: z.string().max(1_000) });

export function signInRoutes(site: Site): Hono<PageEnv> {
  const { db, hf, members, post } = site;
  const routes = new Hono<PageEnv>();

  /** The member and the job of the welcome mail: both are stored, or neither. Null: the address is taken. */
  const addMember = db.transaction((given: Parameters<typeof members.add>[0]) => {
    const member = members.add(given);
    if (member !== null) void hf.enqueue(post.send, { template: "welcome", data: { member: member.id } }, { tx: db });
    return member;
  });

  routes.get("/sign-up", (c) => c.html(signUpPage()));
  routes.post("/sign-up", async (c) => {
    const form = await c.req.parseBody();
    const { fields, problem } = readForm(SIGN_UP, form);
    if (fields === null) return c.html(signUpPage({ form, problem }), 400);
    const hash = await hashPassword(fields.password);
    const member = addMember.immediate({ ...fields, password: hash, newsletter: fields.newsletter === "on" });
    if (member === null) return c.html(signUpPage({ form, problem: "This address has an account. Sign in." }), 409);
    signIn(c, site, member.id);
    return c.redirect("/account", 303);
  });

  routes.get("/sign-in", (c) => c.html(signInPage()));
  routes.post("/sign-in", async (c) => {
    const form = await c.req.parseBody();
    const { fields } = readForm(SIGN_IN, form);
    const member = fields === null ? null : members.byEmail(fields.email);
    const hash = member === null ? null : members.passwordOf(member.id);
    const isRight = await isPassword(fields?.password ?? "", hash);
    if (member === null || !isRight) {
      return c.html(signInPage({ form, problem: "The address or the password is wrong." }), 401);
    }
    signIn(c, site, member.id);
    return c.redirect(member.isStaff ? "/staff/newsletters" : "/account", 303);
  });

  routes.post("/sign-out", (c) => {
    signOut(c, site);
    return c.redirect("/", 303);
  });

  // The page has a button, because programs that check links in chats and mails would use up the code.
  routes.get("/sign-in/link/:code", (c) =>
    c.html(noticePage("Sign in", "The link works once.", { submit: "Sign in" })),
  );
  routes.post("/sign-in/link/:code", (c) => {
    const member = site.sessions.useLink(c.req.param("code"));
    if (member === null) return c.html(noticePage("Sign in", "The link was used, or has expired."), 410);
    signIn(c, site, member);
    return c.redirect("/staff/newsletters", 303);
  });
  return routes;
}
