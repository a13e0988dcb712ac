/** The configuration, for the command: `holdfast.toml`, `HOLDFAST_*` and flags as one checked value. */
export { readConfig, shownValue, suggest } from "./config.js";
export type { Config, ConfigPlace, GivenFlag } from "./config.js";
export { FILE_NAME, findFile } from "./file.js";
export type { Place } from "./file.js";
export { MODULE_ENDINGS } from "./forms.js";
export { InvalidConfig } from "./invalid-config.js";
export { isKey, KEY_NAMES, KEYS, keyOf, SECRET_VARIABLE, SECTIONS, variableOf } from "./keys.js";
export type { Key, KeyName, Values } from "./keys.js";
export { checkValue, describe, readText, showValue } from "./kind.js";
export type { Kind, Read, Value, ValueOf } from "./kind.js";
export { ConfigLocked } from "./lock.js";
export { didYouMean, nearest } from "./nearest.js";
export { modulePath, toHoldfastOptions, toWorkOptions } from "./options.js";
export { hideSecret } from "../secret.js";
export { showPath, showSource } from "./source.js";
export type { Source } from "./source.js";
export { fileToWrite, setKey, unsetKey } from "./write.js";
