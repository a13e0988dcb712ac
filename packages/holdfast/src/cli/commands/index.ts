import type { Command } from "../command.js";
import { completionCommand } from "./completion.js";
import { configCommand } from "./config.js";
import { helpCommand } from "./help.js";
import { versionCommand } from "./version.js";

/** Every command, in the order of help. */
export const commands: readonly Command[] = [configCommand, completionCommand, helpCommand, versionCommand];
