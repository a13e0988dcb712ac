import { InvalidOptionError, job, type EnqueueResult, type HandlerClient, type JobType } from "holdfast";
import { optionKeys, refuseUnknown } from "holdfast/pack";
import { z } from "zod";
import { isId, readOptions, type DiscordOptions } from "./options.js";
import { RateLimits } from "./rate-limit.js";
import { DiscordRest } from "./rest.js";
import { syncRoles, syncRolesOfAccount, type SyncInput, type SyncOutput, type SyncAccountInput } from "./sync.js";

/** What `sync` needs of a client: that of `holdfast()`, or that of a handler. */
export type SyncClient = Pick<HandlerClient, "enqueue">;

export interface SyncOptions {
  /** What changed, for the log: at run time the port is asked. */
  entitlementIds?: readonly string[];
  /** Your own open transaction: the job exists if and only if it commits. */
  tx?: unknown;
}

export interface SyncAccountOptions {
  /** Your own open transaction: the job exists if and only if it commits. */
  tx?: unknown;
}

/** What `discord()` returns. */
export interface DiscordPack {
  /** The job type: `discord.sync`. */
  readonly syncRoles: JobType<SyncInput, SyncOutput>;
  /** The job type for accounts that were linked: `discord.sync_account`. */
  readonly syncAccountRoles: JobType<SyncAccountInput, SyncOutput>;
  /** Pass them to `holdfast({ jobs })`. */
  readonly jobs: readonly JobType[];
  /** There is nothing to create. */
  install(hf?: unknown): Promise<void>;
  /** Enqueues a sync of this user's roles, after a change of entitlements. Several changes before it runs are one job. */
  sync(hf: SyncClient, userId: string, options?: SyncOptions): Promise<EnqueueResult<SyncOutput>>;
  /**
   * Enqueues a sync of a Discord account that is no longer linked to its user: it loses the roles, unless it was linked again. Without this call
   * it keeps them. Needs the option `users`.
   */
  syncAccount(hf: SyncClient, account: string, options?: SyncAccountOptions): Promise<EnqueueResult<SyncOutput>>;
}

const SYNC_OPTIONS = optionKeys<SyncOptions>({ entitlementIds: true, tx: true });

const SYNC_ACCOUNT_OPTIONS = optionKeys<SyncAccountOptions>({ tx: true });

const name = z.string().min(1).max(200);
const input = z.strictObject({ userId: name, entitlementIds: z.array(name).max(100) });
const accountInput = z.strictObject({ account: z.string().refine(isId, "must be an id of Discord") });
// A rate limit uses up an attempt.
const SETTINGS = { retry: { maxAttempts: 10 }, timeout: "1m" } as const;

/**
 * Roles of a Discord server that follow what a user is entitled to.
 *
 * ```ts
 * const members = discord({
 *   token: process.env.DISCORD_TOKEN!,
 *   guild: "81384788765712384",
 *   roles: { supporter: "165511591545143296" },
 *   entitlements: (user) => entitlementsOf(user),
 *   members: (user) => discordIdOf(user),
 * });
 * const hf = await holdfast({ store, jobs: members.jobs });
 * await members.sync(hf, user.id);
 * ```
 */
export function discord(given: DiscordOptions): DiscordPack {
  const read = readOptions(given);
  const parts = { options: read, rest: new DiscordRest(read.api, read.token), limits: new RateLimits(read.clock) };
  const type = job({
    type: `${read.prefix}discord.sync`,
    input,
    ...SETTINGS,
    run: (context) => syncRoles(parts, context),
  });
  const accountType = job({
    type: `${read.prefix}discord.sync_account`,
    input: accountInput,
    ...SETTINGS,
    run: (context) => syncRolesOfAccount(parts, context),
  });
  return Object.freeze<DiscordPack>({
    syncRoles: type,
    syncAccountRoles: accountType,
    jobs: [type, accountType],
    install: async () => {},
    // Not async: in a transaction on SQLite the job must be written, or the error thrown, before this returns.
    sync(hf, userId, options = {}) {
      refuseUnknown(options, SYNC_OPTIONS, "sync");
      const { entitlementIds = [], tx } = options;
      const unique = {
        key: `${read.prefix}discord:${userId}`,
        scope: "waiting",
        // In a transaction, this also keeps a job that waits from running before the commit, with the old entitlements.
        onConflict: "replace",
      } as const;
      return hf.enqueue(
        type,
        { userId, entitlementIds: [...entitlementIds] },
        { unique, ...(tx !== undefined && { tx }) },
      );
    },
    syncAccount(hf, account, options = {}) {
      refuseUnknown(options, SYNC_ACCOUNT_OPTIONS, "syncAccount");
      if (read.users === null) {
        throw new InvalidOptionError(
          "users",
          "is missing in discord(…): it says whether another user has linked the account",
        );
      }
      if (!isId(account)) throw new InvalidOptionError("account", "must be an id of Discord: a string of digits");
      const { tx } = options;
      const unique = {
        key: `${read.prefix}discord:account:${account}`,
        scope: "waiting",
        onConflict: "replace",
      } as const;
      return hf.enqueue(accountType, { account }, { unique, ...(tx !== undefined && { tx }) });
    },
  });
}
