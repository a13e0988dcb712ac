import { spawn } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { text } from "node:stream/consumers";
import type { Program } from "#src/cli/parse/command.js";
import { program } from "#src/cli/program.js";
import { run, type HostProcess } from "#src/cli/run.js";

/** The bundled command, as a user installs it. */
export const MAIN: string = join(import.meta.dirname, "../../dist/bundle/cli.js");
/** The program of `test-program.mjs` as a script. */
export const TEST_PROGRAM: string = join(import.meta.dirname, "test-program.mjs");

export interface CommandResult {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface RunOptions {
  cwd?: string;
  env?: Readonly<Record<string, string>>;
  /** What the command reads from stdin. */
  input?: string;
}

/** The environment of a command under test. Variables of the test process would change the outcome. */
export function plainEnv(more: Readonly<Record<string, string>> = {}): Record<string, string> {
  const { PATH = "", HOME = "", TMPDIR } = process.env;
  return { PATH, HOME, ...(TMPDIR !== undefined && { TMPDIR }), ...more };
}

/** Runs a command in this process, with its own environment, folder and streams. */
export async function runInProcess(
  commands: Program,
  args: readonly string[],
  { cwd = process.cwd(), env = {}, input = "" }: RunOptions = {},
): Promise<CommandResult> {
  const [stdout, stderr] = [captured(), captured()];
  const signals = new EventEmitter();
  const host = {
    argv: [process.execPath, MAIN, ...args],
    env: plainEnv(env),
    stdin: Readable.from(input === "" ? [] : [Buffer.from(input)]),
    stdout: stdout.stream,
    stderr: stderr.stream,
    cwd: () => cwd,
    on: signals.on.bind(signals),
    off: signals.off.bind(signals),
    exit() {
      throw new Error("a command run in process cannot end the process; use spawnHoldfast");
    },
  } as unknown as HostProcess;
  const code = await run(commands, host);
  return { code, stdout: stdout.text(), stderr: stderr.text() };
}

/** A stream that keeps what is written to it. It is not a terminal. */
function captured(): { stream: Writable; text: () => string } {
  const chunks: Buffer[] = [];
  const stream = new Writable({
    decodeStrings: true,
    write(chunk: Buffer, _encoding, done) {
      chunks.push(chunk);
      done();
    },
  });
  return { stream, text: () => Buffer.concat(chunks).toString() };
}

/** Runs `holdfast` in this process. */
export function holdfastCommand(args: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
  return runInProcess(program(), args, options);
}

/**
 * Runs the bundled `holdfast` in its own process: for tests of signals, crashes, the terminal and modules that change or
 * end the process. All others use `holdfastCommand`, which takes a third of the time.
 */
export function spawnHoldfast(args: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
  return runNode(MAIN, args, options);
}

/** Runs a script with Node until it exits. */
export async function runNode(
  script: string,
  args: readonly string[],
  { cwd, env = {}, input = "" }: RunOptions = {},
): Promise<CommandResult> {
  const child = spawn(process.execPath, [script, ...args], { cwd, env: plainEnv(env) });
  child.stdin.on("error", () => {}).end(input);
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close") as Promise<[number | null]>,
  ]);
  return { code, stdout, stderr };
}
