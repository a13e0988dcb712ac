/** Roles of a Discord server that follow what users are entitled to. */
export { discord } from "./discord.js";
export type { DiscordPack, SyncAccountOptions, SyncClient, SyncOptions } from "./discord.js";
export type { DiscordOptions, Entitlements, Members, PortContext, Users } from "./options.js";
export type { SyncAccountInput, SyncInput, SyncOutput } from "./sync.js";

/** Paths for the option `redact` of `holdfast()`: the ids of Discord accounts. */
export const redact: readonly string[] = Object.freeze(["input.account"]);
