import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";

/** The command, as it is installed. */
export const MAIN: string = join(import.meta.dirname, "../../dist/bundle/cli.js");
/** A program of the same frame, with commands for its tests. */
export const FRAME: string = join(import.meta.dirname, "frame.mjs");

export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** A variable of this process's own would change what is tested. */
export function plainEnv(more: Readonly<Record<string, string>> = {}): Record<string, string> {
  const { PATH = "", HOME = "", TMPDIR } = process.env;
  return { PATH, HOME, ...(TMPDIR !== undefined && { TMPDIR }), ...more };
}

/** Runs a program of Node to its end. */
export async function run(
  program: string,
  args: readonly string[],
  { cwd, env = {}, input = "" }: { cwd?: string; env?: Readonly<Record<string, string>>; input?: string } = {},
): Promise<Ended> {
  const child = spawn(process.execPath, [program, ...args], { cwd, env: plainEnv(env) });
  child.stdin.on("error", () => {}).end(input);
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close") as Promise<[number | null]>,
  ]);
  return { code, stdout, stderr };
}

/** Runs `holdfast`. */
export function holdfastCommand(
  args: readonly string[],
  options: { cwd?: string; env?: Readonly<Record<string, string>>; input?: string } = {},
): Promise<Ended> {
  return run(MAIN, args, options);
}
