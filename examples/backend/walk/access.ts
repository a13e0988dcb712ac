import type { TokenRole } from "holdfast";
import { check, checkEqual } from "./check.js";
import type { Story } from "./tour.js";

const CALLS: [role: TokenRole | null, method: string, path: string, status: number][] = [
  [null, "GET", "/jobs", 401],
  ["user", "GET", "/schedules", 403],
  ["viewer", "GET", "/schedules", 200],
  ["viewer", "POST", "/schedules/session_cleanup_hourly/run", 403],
  ["viewer", "POST", "/schedules/session_cleanup_hourly/disable", 403],
  ["operator", "GET", "/tokens", 403],
  ["operator", "GET", "/jobs/stats", 200],
  ["admin", "GET", "/audit", 200],
];

export const access: Story = {
  title: "Each role may do what it should, and no more",
  async run(tour, print) {
    for (const [role, method, path, expected] of CALLS) {
      const { status } = await tour.call(method, path, { role });
      checkEqual(`${method} ${path} as ${role ?? "no one"}`, status, expected);
      print(`${role ?? "without a token"}: ${method} ${path} → ${status}`);
    }
  },
};

export const dashboard: Story = {
  title: "The dashboard is served, and a browser signs in with a token",
  async run(tour, print) {
    const home = `${tour.backend.url}/ops`;
    const page = await fetch(`${home}/schedules`, { headers: { accept: "text/html" } });
    const html = await page.text();
    check(page.status === 200 && html.startsWith("<!doctype html>"), `The dashboard returned ${page.status}.`);
    print(`GET ${home}/schedules → ${page.status}, ${html.length} bytes of HTML`);

    const session = await fetch(`${home}/api/admin/session`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ token: tour.tokens.viewer }),
    });
    const [cookie = ""] = (session.headers.getSetCookie()[0] ?? "").split(";");
    const stats = await fetch(`${home}/api/admin/jobs/stats`, { headers: { cookie } });
    check(stats.status === 200, `The session cookie was not accepted: ${stats.status}.`);
    const { states } = (await stats.json()) as { states: Record<string, number> };
    print(`with the session cookie: ${states["completed"]} jobs completed, ${states["dead"]} dead`);
  },
};
