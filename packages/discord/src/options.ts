import { InvalidOptionError } from "holdfast";
import { optionKeys, refuseUnknown, systemClock, type Clock } from "holdfast/pack";

/** What the ports get besides the user. */
export interface PortContext {
  /** Aborted on cancellation, timeout, lost lease and shutdown. */
  readonly signal: AbortSignal;
}

/** What a user has now. Ids that are not in `roles` are ignored. */
export type Entitlements = (user: string, context: PortContext) => readonly string[] | Promise<readonly string[]>;

/** The Discord id of a user; null if no Discord account is linked. */
export type Members = (user: string, context: PortContext) => string | null | Promise<string | null>;

/** The user to whom a Discord account is linked now; null if it is linked to none. */
export type Users = (account: string, context: PortContext) => string | null | Promise<string | null>;

/** Options of `discord()`. */
export interface DiscordOptions {
  /** The token of the bot. It needs the permission Manage Roles, and its highest role must be above the roles it manages. */
  token: string;
  /** The id of the server. */
  guild: string;
  /** The id of the role that each entitlement gives. Other roles of a member are never changed. */
  roles: Readonly<Record<string, string>>;
  entitlements: Entitlements;
  members: Members;
  /** The reverse of `members`. Needed if users can change or remove their Discord account: see `syncAccount`. */
  users?: Users;
  /** The address of Discord's API. Default `https://discord.com/api/v10`. */
  api?: string;
  /** Before the name of the job type and of unique keys: for two packs on one store. */
  prefix?: string;
  /** For tests. */
  clock?: Clock;
}

export type ReadOptions = Required<Omit<DiscordOptions, "users">> & { readonly users: Users | null };

const OPTION_KEYS = optionKeys<DiscordOptions>({
  token: true,
  guild: true,
  roles: true,
  entitlements: true,
  members: true,
  users: true,
  api: true,
  prefix: true,
  clock: true,
});

const API = "https://discord.com/api/v10";

/** Whether this is an id of Discord. They become parts of paths. */
export function isId(value: unknown): value is string {
  return typeof value === "string" && /^\d{1,20}$/.test(value);
}

export function readOptions(options: DiscordOptions): ReadOptions {
  refuseUnknown(options, OPTION_KEYS, "discord");
  const {
    token,
    guild,
    roles,
    entitlements,
    members,
    users = null,
    api = API,
    prefix = "",
    clock = systemClock,
  } = options;
  // Without its prefix, which the request adds. Anything else could not be in a header.
  if (typeof token !== "string" || !/^[\w.-]+$/.test(token)) {
    throw new InvalidOptionError("token", 'must be the token of a bot, without "Bot "');
  }
  if (!isId(guild)) throw new InvalidOptionError("guild", "must be the id of a Discord server: a string of digits");
  if (typeof entitlements !== "function") throw new InvalidOptionError("entitlements", "must be a function");
  if (typeof members !== "function") throw new InvalidOptionError("members", "must be a function");
  if (users !== null && typeof users !== "function") throw new InvalidOptionError("users", "must be a function");
  if (typeof prefix !== "string" || !/^[\w.:-]{0,30}$/.test(prefix)) {
    throw new InvalidOptionError("prefix", "must have at most 30 letters, digits, dots, hyphens and underscores");
  }
  return { token, guild, roles: readRoles(roles), entitlements, members, users, api: readApi(api), prefix, clock };
}

function readRoles(roles: unknown): Readonly<Record<string, string>> {
  if (typeof roles !== "object" || roles === null || Array.isArray(roles) || Object.keys(roles).length === 0) {
    throw new InvalidOptionError("roles", "must be an object with the id of a role for each entitlement");
  }
  for (const [entitlement, role] of Object.entries(roles)) {
    if (!isId(role))
      throw new InvalidOptionError(`roles.${entitlement}`, "must be the id of a role: a string of digits");
  }
  return { ...roles };
}

function readApi(api: unknown): string {
  const url = typeof api === "string" && URL.canParse(api) ? new URL(api) : null;
  if (url === null || !["http:", "https:"].includes(url.protocol) || url.search !== "" || url.hash !== "") {
    throw new InvalidOptionError("api", `must be a URL such as "${API}"`);
  }
  return url.href.replace(/\/+$/, "");
}
