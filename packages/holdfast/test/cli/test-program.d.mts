import type { Program } from "#src/cli/parse/command.js";

export declare const testProgram: Program;
