import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

// The folder with holdfast.toml.
const FOLDER = join(import.meta.dirname, "../..");

export interface CommandResult {
  exitCode: number;
  stdout: string;
  stderr: string;
}

/** Runs `holdfast` in a process of its own, as a shell would. Its settings are those of holdfast.toml and of `env`. */
export function runCommand(args: readonly string[], env: Record<string, string>): Promise<CommandResult> {
  const { PATH = "", HOME = "" } = process.env;
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [commandFile(), ...args],
      { cwd: FOLDER, env: { PATH, HOME, NO_COLOR: "1", ...env }, timeout: 20_000 },
      (error, stdout, stderr) =>
        resolve({
          exitCode: error === null ? 0 : Number(error.code ?? 1),
          stdout: stdout.trim(),
          stderr: stderr.trim(),
        }),
    );
  });
}

function commandFile(): string {
  const manifest = fileURLToPath(import.meta.resolve("holdfast/package.json"));
  const { bin } = JSON.parse(readFileSync(manifest, "utf8")) as { bin: { holdfast: string } };
  return join(dirname(manifest), bin.holdfast);
}
