import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

/** A message of a child process. Which fields are set depends on `kind`. */
export interface Report {
  kind: string;
  id: string;
  ids: string[];
  count: number;
  at: number;
  tookMs: number;
  attempt: number;
  code: string;
  doing: string;
  message: string;
  output: unknown;
  longestMs: number;
}

export interface Child {
  pid: number;
  /** Everything it has reported so far. */
  reports: readonly Report[];
  send(command: object): void;
  /** The next report of this kind that was not returned before. */
  next(kind: string, deadlineMs?: number): Promise<Report>;
  kill(): void;
  /** Its exit code, or the signal that ended it. */
  ended(deadlineMs?: number): Promise<number | string>;
}

const DEADLINE_MS = 15_000;

/** Starts a fixture as a separate process. It is killed when the test ends. */
export function startChild(fixture: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Child {
  const script = fileURLToPath(new URL(`../fixtures/${fixture}`, import.meta.url));
  const child = fork(script, args, {
    // Not the options of the test runner's process.
    execArgv: [],
    env: { ...process.env, ...env },
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  const reports: Report[] = [];
  const taken = new Map<string, number>();
  const changed = new Set<() => void>();
  let stderr = "";
  let end: number | string | null = null;
  const change = (): void => {
    for (const check of changed) check();
  };
  child.stderr?.on("data", (text) => (stderr += String(text)));
  child.on("message", (report) => {
    reports.push(report as Report);
    change();
  });
  child.on("close", (code, signal) => {
    end = signal ?? code ?? -1;
    change();
  });
  onTestFinished(() => void child.kill("SIGKILL"));

  /** Checks after every report, and at the end of the child. */
  function waitFor<T>(what: string, deadlineMs: number, find: () => T | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      const finish = (settle: () => void): void => {
        changed.delete(check);
        clearTimeout(timer);
        settle();
      };
      const check = (): void => {
        const found = find();
        const fail = (why: string): void => finish(() => reject(new Error(`${why} before ${what}. ${stderr}`)));
        if (found !== undefined) finish(() => resolve(found));
        else if (end !== null) fail(`${fixture} ended (${end})`);
      };
      const timer = setTimeout(() => {
        const last = JSON.stringify(reports.slice(-3));
        finish(() =>
          reject(new Error(`${fixture}: timed out after ${deadlineMs} ms waiting for ${what}; last reports: ${last}`)),
        );
      }, deadlineMs);
      changed.add(check);
      check();
    });
  }

  assert.ok(child.pid !== undefined);
  return {
    pid: child.pid,
    reports,
    send: (command) => void child.send(command),
    async next(kind, deadlineMs = DEADLINE_MS) {
      const from = taken.get(kind) ?? 0;
      taken.set(kind, from + 1);
      return waitFor(`"${kind}"`, deadlineMs, () => reports.filter((report) => report.kind === kind)[from]);
    },
    kill: () => void child.kill("SIGKILL"),
    ended: (deadlineMs = DEADLINE_MS) => waitFor("its end", deadlineMs, () => end ?? undefined),
  };
}

/** A process with an open client on the file. */
export async function startClient(file: string, env: NodeJS.ProcessEnv = {}, durability = "full"): Promise<Child> {
  const child = startChild("client.mjs", [file, durability], env);
  await child.next("up");
  child.send({ do: "open" });
  await child.next("opened");
  return child;
}
