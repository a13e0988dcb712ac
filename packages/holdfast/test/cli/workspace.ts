import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { holdfast, type Holdfast } from "holdfast";
import { expect, onTestFinished } from "vitest";
import { addressOf, ownSchema } from "../postgres/scene.js";
import type { postgresServer } from "../postgres/server.js";
import { holdfastCommand, MAIN, plainEnv, spawnHoldfast, type CommandResult } from "./scene.js";

/** For tests that start processes, on a busy machine. */
export const SLOW: { timeout: number } = { timeout: 90_000 };

/** Variables of a command in its own process whose limits of five seconds should pass in one. */
export const SHORT_LIMITS: Readonly<Record<string, string>> = {
  NODE_OPTIONS: `--import=${new URL("../fixtures/short-limits.mjs", import.meta.url).href}`,
};

/** A jobs module in TypeScript. Its mail takes `ms`, or `ms` after a signal of the process. */
export const MODULE = `
import { appendFileSync } from "node:fs";
import { job, type Holdfast } from "holdfast";
enum Address { Unknown = "unknown" }
export const mail = job({
  type: "mail",
  retry: { maxAttempts: 1 },
  input: { "~standard": { version: 1, vendor: "test", validate: (value: unknown) => ({ value }) } } as const,
  async run({ input, signal }: { input: { to: string; after?: string; ms?: number }; signal: AbortSignal }) {
    if (input.to === Address.Unknown) throw new Error("no such address");
    if (input.after !== undefined) {
      // A signal that is waited for does not keep a process alive.
      const alive = setInterval(() => {}, 60_000);
      await new Promise((resolve) => void process.once(input.after, resolve));
      clearInterval(alive);
    }
    await new Promise((resolve) => setTimeout(resolve, input.ms ?? 0));
    appendFileSync(new URL("ran.txt", import.meta.url), input.to + (signal.aborted ? " aborted" : "") + "\\n");
    return { sent: true };
  },
});
export async function setup(hf: Holdfast): Promise<void> {
  await hf.schedule("digest", { job: mail, input: { to: "digest" }, cron: "0 8 * * MON-FRI", timezone: "Europe/Berlin" });
}
`;

/** A folder with a store, in which commands run. */
export interface Workspace {
  cwd: string;
  store: string;
  hf: Holdfast;
  /** Runs a command in this process, in the folder and on the store. */
  run: (...args: string[]) => Promise<CommandResult>;
  /** The same with `--json`. Expects exit code 0 and returns the parsed document. */
  json: <Result>(...args: string[]) => Promise<Result>;
  /** Like `run`, with the bundled command in its own process. */
  spawn: (...args: string[]) => Promise<CommandResult>;
  /** Starts the bundled command in its own process and does not wait for it. Killed when the test ends. */
  start: (...args: string[]) => Running;
}
/** A command that is still running. */
export interface Running {
  child: ChildProcessWithoutNullStreams;
  stdout: () => string;
  stderr: () => string;
  ended: Promise<number | null>;
}

/** The stores that commands are tested on. Each call of `address` names a new, empty one. */
export function storesOf(
  server: ReturnType<typeof postgresServer>,
): [name: string, address: (cwd: string) => string][] {
  return [
    ["SQLite", (cwd) => `sqlite:${join(cwd, "jobs.db")}`],
    ["PostgreSQL", () => addressOf(server.url(), ownSchema(server))],
  ];
}

/** A folder with a jobs module and nothing else. Its store does not exist yet. */
export function emptyWorkspace(
  address: (cwd: string) => string,
  more: Readonly<Record<string, string>> = {},
): Omit<Workspace, "hf"> {
  const cwd = mkdtempSync(join(tmpdir(), "holdfast-cli-"));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  symlinkSync(join(import.meta.dirname, "../../../../node_modules"), join(cwd, "node_modules"));
  writeFileSync(join(cwd, "jobs.ts"), MODULE);
  const store = address(cwd);
  const env = { HOLDFAST_STORE: store, ...more };
  const run = (...args: string[]): Promise<CommandResult> => holdfastCommand(args, { cwd, env });
  return {
    cwd,
    store,
    run,
    spawn: (...args) => spawnHoldfast(args, { cwd, env }),
    async json<Result>(...args: string[]) {
      const { code, stdout, stderr } = await run(...args, "--json");
      expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
      return JSON.parse(stdout) as Result;
    },
    start(...args) {
      const child = spawn(process.execPath, [MAIN, ...args], { cwd, env: plainEnv(env) });
      let [stdout, stderr] = ["", ""];
      child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
      child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
      const ended = once(child, "exit").then(([code]) => code as number | null);
      onTestFinished(() => void child.kill("SIGKILL"));
      return { child, stdout: () => stdout, stderr: () => stderr, ended };
    },
  };
}

/** A folder with a jobs module and a migrated store, with a client for the test. */
export async function workspace(
  address: (cwd: string) => string,
  more: Readonly<Record<string, string>> = {},
): Promise<Workspace> {
  const empty = emptyWorkspace(address, more);
  const hf = await holdfast({ store: empty.store, logger: false });
  onTestFinished(() => hf.close());
  return { ...empty, hf };
}
