import { Hono } from "hono";
import { admin, type Admin } from "holdfast/admin";
import { cookieIn } from "./routes/visitor.js";
import type { Site } from "./site.js";

/** Where the dashboard is. */
export const DASHBOARD = "/staff/jobs";

/** The dashboard for staff, and the admin API for programs. */
export interface StaffTools {
  readonly routes: Hono;
  close(): Promise<void>;
}

export function openAdmin({ hf, members, sessions }: Site): StaffTools {
  // Staff are signed in on the site, and need no other credentials here. The audit log has their addresses.
  const dashboard = admin(hf, {
    basePath: DASHBOARD,
    auth(request) {
      const cookie = cookieIn(request.headers.get("cookie"));
      const memberId = cookie === undefined ? null : sessions.memberIdOf(cookie);
      const member = memberId === null ? null : members.byId(memberId);
      return member?.isStaff === true ? { name: member.email, role: "admin", user: null } : null;
    },
  });
  // Programs, such as a monitor, send an API token: `hf.tokens.create(…)`, or `npx holdfast tokens create`.
  const api = admin(hf, { dashboard: false });

  const routes = new Hono();
  mount(routes, DASHBOARD, dashboard);
  mount(routes, "/api/admin", api);
  routes.get("/api/v1/admin/jobs", ({ req, env }) => api.fetch(req.raw, env));
  return {
    routes,
    async close() {
      await Promise.all([dashboard.close(), api.close()]);
    },
  };
}

function mount(routes: Hono, path: string, { fetch }: Admin): void {
  routes.all(path, ({ req, env }) => fetch(req.raw, env));
  routes.all(`${path}/*`, ({ req, env }) => fetch(req.raw, env));
}
