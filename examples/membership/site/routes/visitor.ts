import type { Context, MiddlewareHandler } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { parse } from "hono/utils/cookie";
import type { Member } from "../members.js";
import type { Site } from "../site.js";

/** What every page knows. */
export interface PageEnv {
  Variables: {
    /** Who is signed in; null: a visitor. */
    member: Member | null;
  };
}

/** A page that needs a member, or staff. */
export interface MemberEnv {
  Variables: { member: Member };
}

const COOKIE = "session";
const MAX_AGE_S = 30 * 86_400;

/** The session in the header `cookie`. */
export function cookieIn(header: string | null): string | undefined {
  return header === null ? undefined : parse(header, COOKIE)[COOKIE];
}

export function readMember({ sessions, members }: Site): MiddlewareHandler<PageEnv> {
  return async (c, next) => {
    const cookie = getCookie(c, COOKIE);
    const id = cookie === undefined ? null : sessions.memberIdOf(cookie);
    c.set("member", id === null ? null : members.byId(id));
    await next();
    // Pages are personal.
    c.header("cache-control", "no-store");
  };
}

/** Sends visitors to the page where they sign in. */
export function membersOnly(): MiddlewareHandler<MemberEnv> {
  return async (c, next) => {
    if ((c.get("member") as Member | null) === null) return c.redirect("/sign-in", 303);
    return next();
  };
}

/** For others, the pages of staff do not exist. */
export function staffOnly(): MiddlewareHandler<MemberEnv> {
  return async (c, next) => {
    if ((c.get("member") as Member | null)?.isStaff !== true) return c.notFound();
    return next();
  };
}

/** Ends the session that the browser had, so that no one can plant a cookie before a sign-in and use it after. */
export function signIn(c: Context, { sessions, url }: Site, memberId: string): void {
  const before = getCookie(c, COOKIE);
  if (before !== undefined) sessions.end(before);
  setCookie(c, COOKIE, sessions.start(memberId), {
    httpOnly: true,
    sameSite: "Lax",
    secure: url.startsWith("https:"),
    path: "/",
    maxAge: MAX_AGE_S,
  });
}

export function signOut(c: Context, { sessions }: Pick<Site, "sessions">): void {
  const cookie = getCookie(c, COOKIE);
  if (cookie !== undefined) sessions.end(cookie);
  deleteCookie(c, COOKIE, { path: "/" });
}
