#!/usr/bin/env node
import { program } from "./program.js";
import { run } from "./run.js";

const code = await run(program(), process);
// A module of jobs may hold what never ends, a pool of connections say: nobody waits for that. What was written is.
await Promise.all(
  [process.stdout, process.stderr].map(
    (stream) => new Promise<void>((resolve) => void stream.write("", () => resolve())),
  ),
);
process.exit(code);
