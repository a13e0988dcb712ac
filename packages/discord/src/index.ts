/** Roles of a Discord server that follow what users are entitled to. */
export { discord } from "./discord.js";
export type { DiscordPack, SyncClient, SyncOptions } from "./discord.js";
export type { DiscordOptions, Entitlements, Members, PortContext } from "./options.js";
export type { SyncInput, SyncOutput } from "./sync.js";

/** Paths for the option `redact` of `holdfast()`: none. Inputs and outputs have your own ids of users, and ids of roles. */
export const redact: readonly string[] = [];
