import type { Program } from "./parse/command.js";
import { run } from "./run.js";

/** Runs one command of a program as this process, and exits. */
export async function runProgram(program: Program): Promise<never> {
  const code = await run(program, process);
  // A jobs module may hold an open handle, such as a connection pool. Exit anyway, but only after the output is written.
  await Promise.all(
    [process.stdout, process.stderr].map(
      (stream) => new Promise<void>((resolve) => void stream.write("", () => resolve())),
    ),
  );
  process.exit(code);
}
