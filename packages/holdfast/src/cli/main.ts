#!/usr/bin/env node
import { program } from "./program.js";
import { run } from "./run.js";

process.exitCode = await run(program(), process);
