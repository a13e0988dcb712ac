/** Jobs that delete expired rows of your tables, on schedules. */
export { housekeeping } from "./housekeeping.js";
export type { CleanUpOutput, Housekeeping, HousekeepingOptions, Rule } from "./housekeeping.js";
export type { AuthPreset, OAuthPreset, Presets, SessionsPreset, WebhookDeliveriesPreset } from "./presets.js";
export type { Pruner, PrunerOptions } from "./pruner.js";
export type { Condition, Deletion, TimeFormat } from "./rules.js";
