import { Hono } from "hono";
import { admin } from "holdfast/admin";
import { cookieIn } from "./routes/visitor.js";
import type { Site } from "./site.js";

/** Where the dashboard is. */
export const DASHBOARD = "/staff/jobs";

/** The dashboard for staff, and the admin API for programs. */
export interface StaffTools {
  readonly routes: Hono;
  close(): Promise<void>;
}

/** Where else the admin API is, for programs. */
const API = ["/api/admin", "/api/v1/admin/jobs"];

export function openAdmin({ hf, members, sessions }: Site): StaffTools {
  const api = admin(hf, {
    basePath: DASHBOARD,
    // Staff are signed in on the site, and need no other credentials here. The audit log has their addresses.
    auth(request) {
      // Programs, such as a monitor, send an API token: `hf.tokens.create(…)`, or `npx holdfast tokens create`.
      if (request.headers.get("authorization")?.startsWith("Bearer ") === true) return "tokens";
      const cookie = cookieIn(request.headers.get("cookie"));
      const memberId = cookie === undefined ? null : sessions.memberIdOf(cookie);
      const member = memberId === null ? null : members.byId(memberId);
      return member?.isStaff === true ? { name: member.email, role: "admin", user: null } : null;
    },
  });
  const routes = new Hono();
  for (const path of [DASHBOARD, ...API]) {
    routes.all(path, ({ req, env }) => api.fetch(req.raw, env));
    routes.all(`${path}/*`, ({ req, env }) => api.fetch(req.raw, env));
  }
  return { routes, close: () => api.close() };
}
