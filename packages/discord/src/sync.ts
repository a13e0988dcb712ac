import { NotRetryable, RetryAfter, type RunContext } from "holdfast";
import { isId, type ReadOptions } from "./options.js";
import type { RateLimits } from "./rate-limit.js";
import { DiscordError, RateLimitError, type DiscordRest } from "./rest.js";

export interface SyncInput {
  userId: string;
  /** What changed, for the log. At run time the port says what the user has. */
  entitlementIds: string[];
}

/** The input of the job for a Discord account that was linked to a user. */
export interface SyncAccountInput {
  account: string;
}

/** The roles that a sync changed. */
export type SyncOutput =
  | { readonly added: readonly string[]; readonly removed: readonly string[]; readonly unchanged: readonly string[] }
  | { readonly skipped: true; readonly reason: "not linked" | "not a member" };

/** Discord's codes that mean that the user is not in the server. */
const NOT_A_MEMBER = new Set([10_007, 10_013]);
/** Discord's codes that mean that the bot may not change a role, or that it does not exist. */
const MISSING_ACCESS = 50_001;
const MISSING_PERMISSIONS = 50_013;
const UNKNOWN_ROLE = 10_011;
/** Statuses of which a retry may succeed. */
const TEMPORARY = new Set([408, 409, 425, 429]);
/** A change of entitlements while the roles are changed is applied at once, this often. */
const MAX_ROUNDS = 3;

interface Parts {
  readonly options: ReadOptions;
  readonly rest: DiscordRest;
  readonly limits: RateLimits;
}

interface Changes {
  readonly added: Set<string>;
  readonly removed: Set<string>;
  unchanged: Set<string>;
}

/** Gives and takes the roles of one user. */
export async function syncRoles(parts: Parts, context: RunContext<SyncInput>): Promise<SyncOutput> {
  const { options } = parts;
  const { userId } = context.input;
  return syncAccount(parts, context, async () => {
    const account = await accountOf(options, userId, context);
    if (account === null) return null;
    // An account that was unlinked while its roles were changed: the job of the new one has seen neither.
    const owner = async (): Promise<string | null> =>
      (await accountOf(options, userId, context)) === account ? userId : ownerOf(options, account, context);
    return { account, owner };
  });
}

/** Takes the roles of an account that is linked to no user; gives and takes those of the user who has linked it since. */
export async function syncRolesOfAccount(parts: Parts, context: RunContext<SyncAccountInput>): Promise<SyncOutput> {
  const { account } = context.input;
  return syncAccount(parts, context, async () => ({ account, owner: () => ownerOf(parts.options, account, context) }));
}

/** An account of Discord, and whose roles it has to have. */
interface Target {
  readonly account: string;
  readonly owner: () => Promise<string | null>;
}

async function syncAccount(
  parts: Parts,
  context: RunContext<unknown>,
  find: () => Promise<Target | null>,
): Promise<SyncOutput> {
  const { job } = context;
  const wait = parts.limits.waitBefore(job.attempt);
  if (wait > 0) throw new RetryAfter(wait, "Discord limits this bot; other jobs wait for it too");
  try {
    const target = await find();
    if (target === null) return { skipped: true, reason: "not linked" };
    const { added, removed, unchanged } = await applyUntilStable(parts, target, context);
    return { added: [...added], removed: [...removed], unchanged: [...unchanged] };
  } catch (error) {
    if (error instanceof RateLimitError)
      throw new RetryAfter(parts.limits.refused(error.limit, job.attempt), error.message);
    if (!(error instanceof DiscordError)) throw error;
    if (NOT_A_MEMBER.has(error.code)) return { skipped: true, reason: "not a member" };
    if (error.status < 400 || error.status >= 500 || TEMPORARY.has(error.status)) throw error;
    throw new NotRetryable(error.message, { cause: error });
  }
}

async function accountOf(
  { members }: ReadOptions,
  user: string,
  { signal }: RunContext<unknown>,
): Promise<string | null> {
  const account = (await members(user, { signal })) ?? null;
  if (account === null || isId(account)) return account;
  throw new NotRetryable("the port members returned something that is not an id of Discord");
}

async function ownerOf(
  { users }: ReadOptions,
  account: string,
  { signal }: RunContext<unknown>,
): Promise<string | null> {
  const owner = (await users?.(account, { signal })) ?? null;
  if (owner === null || typeof owner === "string") return owner;
  throw new NotRetryable("the port users returned something that is not an id of a user");
}

/**
 * Another job of the same account may run now, and may have seen older or newer entitlements. So each job reads them again after its
 * changes: whichever job changes a role last, has seen the latest entitlements.
 */
async function applyUntilStable(parts: Parts, target: Target, context: RunContext<unknown>): Promise<Changes> {
  const changes: Changes = { added: new Set(), removed: new Set(), unchanged: new Set() };
  let wanted = await wantedRoles(parts.options, target, context);
  for (let round = 1; ; round++) {
    const hasChanged = await apply(parts, target.account, wanted, changes, context);
    if (!hasChanged) return changes;
    const before = wanted;
    wanted = await wantedRoles(parts.options, target, context);
    if (isSame(before, wanted)) return changes;
    if (round === MAX_ROUNDS) throw new Error("the entitlements kept changing while the roles were changed");
  }
}

async function wantedRoles(
  { entitlements, roles }: ReadOptions,
  { owner }: Target,
  { signal }: RunContext<unknown>,
): Promise<ReadonlySet<string>> {
  signal.throwIfAborted();
  const user = await owner();
  if (user === null) return new Set();
  const has = await entitlements(user, { signal });
  if (!Array.isArray(has) || !has.every((each) => typeof each === "string")) {
    throw new NotRetryable("the port entitlements returned something that is not an array of strings");
  }
  return new Set(has.flatMap((entitlement) => (Object.hasOwn(roles, entitlement) ? [roles[entitlement]!] : [])));
}

function isSame(one: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  return one.size === other.size && [...one].every((role) => other.has(role));
}

/** Changes the roles that differ. Returns whether any did. */
async function apply(
  { options, rest, limits }: Parts,
  member: string,
  wanted: ReadonlySet<string>,
  changes: Changes,
  { job, signal }: RunContext<unknown>,
): Promise<boolean> {
  const path = `/guilds/${options.guild}/members/${member}`;
  const present = rolesOf(await rest.call({ method: "GET", path, name: "GET member" }, signal));
  const managed = new Set(Object.values(options.roles));
  const differing = [...managed].filter((role) => wanted.has(role) !== present.has(role));
  changes.unchanged = new Set([...managed].filter((role) => present.has(role) && wanted.has(role)));
  if (differing.length === 0) return false;
  limits.willCall(differing.length);
  const failed: DiscordError[] = [];
  // First the roles to add: the user waits for those.
  for (const role of differing.toSorted((a, b) => Number(wanted.has(b)) - Number(wanted.has(a)))) {
    const isAdded = wanted.has(role);
    const name = `${isAdded ? "PUT" : "DELETE"} role ${role} (${entitlementsOf(options, role)})`;
    try {
      const method = isAdded ? "PUT" : "DELETE";
      await rest.call({ method, path: `${path}/roles/${role}`, name, reason: `entitlement sync ${job.id}` }, signal);
      record(changes, role, isAdded);
    } catch (error) {
      // The other roles are changed all the same.
      if (!(error instanceof DiscordError) || !isAboutRole(error)) throw error;
      failed.push(error);
    }
  }
  if (failed.length > 0) throw new NotRetryable(failed.map(explain).join("; "), { cause: failed[0] });
  return true;
}

/** A role that another round changes back counts as changed only once. */
function record({ added, removed, unchanged }: Changes, role: string, isAdded: boolean): void {
  (isAdded ? removed : added).delete(role);
  (isAdded ? added : removed).add(role);
  unchanged.delete(role);
}

function isAboutRole({ code }: DiscordError): boolean {
  return code === MISSING_PERMISSIONS || code === MISSING_ACCESS || code === UNKNOWN_ROLE;
}

function explain({ message, code }: DiscordError): string {
  if (code === UNKNOWN_ROLE) return `${message}: the server has no such role; correct the option roles`;
  return `${message}: the bot needs the permission Manage Roles, and its highest role must be above this role`;
}

function entitlementsOf({ roles }: ReadOptions, role: string): string {
  return Object.keys(roles)
    .filter((entitlement) => roles[entitlement] === role)
    .join(", ");
}

function rolesOf(member: unknown): ReadonlySet<string> {
  const roles = (member as { roles?: unknown } | null | undefined)?.roles;
  if (Array.isArray(roles) && roles.every((role) => typeof role === "string")) return new Set<string>(roles);
  throw new Error("Discord's response is not a member; something between this process and Discord may have changed it");
}
