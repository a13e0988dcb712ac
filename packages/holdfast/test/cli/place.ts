import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { holdfast, type Holdfast } from "holdfast";
import { expect, onTestFinished } from "vitest";
import { addressOf, ownSchema } from "../postgres/scene.js";
import type { postgresServer } from "../postgres/server.js";
import { holdfastCommand, MAIN, plainEnv, type Ended } from "./scene.js";

/** Real processes on a busy machine. */
export const SLOW: { timeout: number } = { timeout: 90_000 };

/** A module of jobs. */
export const MODULE = `
import { appendFileSync } from "node:fs";
import { job, type Holdfast } from "holdfast";
enum Address { Nobody = "nobody" }
export const mail = job({
  type: "mail",
  retry: { maxAttempts: 1 },
  input: { "~standard": { version: 1, vendor: "test", validate: (value: unknown) => ({ value }) } } as const,
  async run({ input, signal }: { input: { to: string; ms?: number }; signal: AbortSignal }) {
    if (input.to === Address.Nobody) throw new Error("no such address");
    await new Promise((resolve) => setTimeout(resolve, input.ms ?? 0));
    appendFileSync(new URL("ran.txt", import.meta.url), input.to + (signal.aborted ? " aborted" : "") + "\\n");
    return { sent: true };
  },
});
export async function setup(hf: Holdfast): Promise<void> {
  await hf.schedule("digest", { job: mail, input: { to: "digest" }, cron: "0 8 * * MON-FRI", timezone: "Europe/Berlin" });
}
`;

/** Where a command is tried. */
export interface Place {
  cwd: string;
  store: string;
  hf: Holdfast;
  /** Runs the command in the folder, on the store. */
  run: (...args: string[]) => Promise<Ended>;
  /** The same with `--json`; the exit code must be 0. */
  json: <Answer>(...args: string[]) => Promise<Answer>;
  /** A command that goes on. */
  start: (...args: string[]) => Running;
}
/** A command that goes on. */
export interface Running {
  child: ChildProcessWithoutNullStreams;
  stdout: () => string;
  stderr: () => string;
  ended: Promise<number | null>;
}

/** The stores that a command is tried on, each time a new one. */
export function storesOf(
  server: ReturnType<typeof postgresServer>,
): [name: string, address: (cwd: string) => string][] {
  return [
    ["SQLite", (cwd) => `sqlite:${join(cwd, "jobs.db")}`],
    ["PostgreSQL", () => addressOf(server.url(), ownSchema(server))],
  ];
}

/** A folder with a module of jobs and nothing else, and the command in it, on a store that nobody has made yet. */
export function bare(address: (cwd: string) => string, more: Readonly<Record<string, string>> = {}): Omit<Place, "hf"> {
  const cwd = mkdtempSync(join(tmpdir(), "holdfast-cli-"));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  symlinkSync(join(import.meta.dirname, "../../../../node_modules"), join(cwd, "node_modules"));
  writeFileSync(join(cwd, "jobs.ts"), MODULE);
  const store = address(cwd);
  const env = { HOLDFAST_STORE: store, ...more };
  const run = (...args: string[]): Promise<Ended> => holdfastCommand(args, { cwd, env });
  return {
    cwd,
    store,
    run,
    async json<Answer>(...args: string[]) {
      const { code, stdout, stderr } = await run(...args, "--json");
      expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
      return JSON.parse(stdout) as Answer;
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

/** The same on a store that is there, with a client of the test's own. */
export async function place(address: (cwd: string) => string): Promise<Place> {
  const there = bare(address);
  const hf = await holdfast({ store: there.store, logger: false });
  onTestFinished(() => hf.close());
  return { ...there, hf };
}
