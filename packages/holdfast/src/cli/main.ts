#!/usr/bin/env node
import { program } from "./program.js";
import { runProgram } from "./run-program.js";

await runProgram(program());
