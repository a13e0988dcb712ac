import { randomBytes } from "node:crypto";
import { Hono } from "hono";
import { html } from "hono/html";
import { listen } from "../listen.js";
import type { SiteConfig } from "../site/config.js";
import { vendorPage } from "./page.js";

const GUILD = "81384788765712384";
const ROLES = { reader: "165511591545143296", patron: "165511591545143297" };
/** A role that the site does not manage. */
const MODERATOR = "165511591545143299";

/** Like Discord, but smaller: so many changes of roles in a period, and then 429. */
const LIMIT = { calls: 1, periodMs: 300 };

/** A server that speaks the part of Discord's REST API that role syncs need, with its rate limits. */
export interface DiscordServer {
  readonly url: string;
  readonly config: SiteConfig["discord"];
  /** A user joins the server, without roles of the site. */
  join(user: string): void;
  /** The names of a member's roles. */
  rolesOf(user: string): string[];
  /** How many calls were refused with 429. */
  readonly refused: number;
  close(): Promise<void>;
}

export async function startDiscord(): Promise<DiscordServer> {
  const token = `${randomBytes(18).toString("base64url")}.${randomBytes(4).toString("base64url")}.stand-in`;
  const members = new Map<string, Set<string>>();
  let bucket = { endsAt: 0, calls: 0 };
  let refused = 0;

  /** Null, or how many milliseconds the caller has to wait. */
  function takeCall(now: number): number | null {
    if (now >= bucket.endsAt) bucket = { endsAt: now + LIMIT.periodMs, calls: 0 };
    if (bucket.calls >= LIMIT.calls) return bucket.endsAt - now;
    bucket.calls++;
    return null;
  }

  const api = new Hono();
  api.use(async (c, next) => {
    if (c.req.header("authorization") !== `Bot ${token}`) return c.json({ message: "401: Unauthorized", code: 0 }, 401);
    return next();
  });
  api.get("/guilds/:guild/members/:user", (c) => {
    const { guild, user } = c.req.param();
    const roles = members.get(user);
    if (guild !== GUILD || roles === undefined) return c.json({ message: "Unknown Member", code: 10_007 }, 404);
    return c.json({ user: { id: user }, roles: [...roles] });
  });
  api.on(["PUT", "DELETE"], "/guilds/:guild/members/:user/roles/:role", (c) => {
    const { guild, user, role } = c.req.param();
    const waitMs = takeCall(Date.now());
    if (waitMs !== null) {
      refused++;
      const seconds = waitMs / 1_000;
      return c.json({ message: "You are being rate limited.", retry_after: seconds, global: false }, 429, {
        "retry-after": String(Math.ceil(seconds)),
        "x-ratelimit-limit": String(LIMIT.calls),
        "x-ratelimit-reset-after": String(seconds),
      });
    }
    const roles = members.get(user);
    if (guild !== GUILD || roles === undefined) return c.json({ message: "Unknown Member", code: 10_007 }, 404);
    if (c.req.method === "PUT") roles.add(role);
    else roles.delete(role);
    return c.body(null, 204);
  });

  const app = new Hono();
  app.route("/api/v10", api);
  app.get("/", (c) => {
    const rows = [...members.keys()].map(
      (user) =>
        html`<tr>
          <td>${user}</td>
          <td>${rolesOf(user).join(", ")}</td>
        </tr>`,
    );
    return c.html(
      vendorPage(
        "Discord server",
        html`<table>
            <thead>
              <tr>
                <th>Account</th>
                <th>Roles</th>
              </tr>
            </thead>
            <tbody>
              ${rows}
            </tbody>
          </table>
          <form method="post" class="row">
            <label>Your account <input name="user" inputmode="numeric" pattern="[0-9]{5,20}" required /></label>
            <button>Join the server</button>
          </form>`,
      ),
    );
  });
  app.post("/", async (c) => {
    const { user } = await c.req.parseBody();
    if (typeof user === "string" && /^[0-9]{5,20}$/.test(user) && !members.has(user)) join(user);
    return c.redirect("/", 303);
  });

  function join(user: string): void {
    members.set(user, new Set([MODERATOR]));
  }

  function rolesOf(user: string): string[] {
    const names: Record<string, string> = {
      [ROLES.reader]: "reader",
      [ROLES.patron]: "patron",
      [MODERATOR]: "moderator",
    };
    return [...(members.get(user) ?? [])].map((role) => names[role] ?? role).toSorted();
  }

  const server = await listen();
  server.handle(app.fetch);
  return {
    url: server.url,
    config: { token, guild: GUILD, roles: ROLES, api: `${server.url}/api/v10` },
    join,
    rolesOf,
    get refused() {
      return refused;
    },
    close: () => server.close(),
  };
}
