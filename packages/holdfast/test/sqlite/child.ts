import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

/** What a child process says. `kind` tells what it is about; the rest depends on that. */
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
  answer: string;
  output: unknown;
  longestMs: number;
}

export interface Child {
  pid: number;
  /** Everything it has reported so far. */
  reports: readonly Report[];
  tell(order: object): void;
  /** The next report of this kind that was not asked for before. */
  next(kind: string, deadlineMs?: number): Promise<Report>;
  kill(): void;
  /** Its exit code, or the signal that ended it. */
  ended(deadlineMs?: number): Promise<number | string>;
}

const DEADLINE_MS = 15_000;

/** Starts a fixture as a process of its own. It is gone when the test is over, however that ends. */
export function startChild(fixture: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Child {
  const script = fileURLToPath(new URL(`../fixtures/${fixture}`, import.meta.url));
  const child = fork(script, args, {
    // Options of the test runner's own process are not for its children.
    execArgv: [],
    env: { ...process.env, ...env },
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  const reports: Report[] = [];
  const taken = new Map<string, number>();
  const changed = new Set<() => void>();
  let complaint = "";
  let end: number | string | null = null;
  const change = (): void => {
    for (const look of changed) look();
  };
  child.stderr?.on("data", (text) => (complaint += String(text)));
  child.on("message", (report) => {
    reports.push(report as Report);
    change();
  });
  child.on("close", (code, signal) => {
    end = signal ?? code ?? -1;
    change();
  });
  onTestFinished(() => void child.kill("SIGKILL"));

  /** Looks again at whatever the child says or does. */
  function waitFor<T>(what: string, deadlineMs: number, find: () => T | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      const finish = (settle: () => void): void => {
        changed.delete(look);
        clearTimeout(timer);
        settle();
      };
      const look = (): void => {
        const found = find();
        const fail = (why: string): void =>
          finish(() => reject(new Error(`${why} before it came to: ${what}. ${complaint}`)));
        if (found !== undefined) finish(() => resolve(found));
        else if (end !== null) fail(`${fixture} ended (${end})`);
      };
      const timer = setTimeout(() => {
        const last = JSON.stringify(reports.slice(-3));
        finish(() =>
          reject(new Error(`${fixture}: waited ${deadlineMs} ms in vain for ${what}; last reports: ${last}`)),
        );
      }, deadlineMs);
      changed.add(look);
      look();
    });
  }

  assert.ok(child.pid !== undefined);
  return {
    pid: child.pid,
    reports,
    tell: (order) => void child.send(order),
    async next(kind, deadlineMs = DEADLINE_MS) {
      const from = taken.get(kind) ?? 0;
      taken.set(kind, from + 1);
      return waitFor(`"${kind}"`, deadlineMs, () => reports.filter((report) => report.kind === kind)[from]);
    },
    kill: () => void child.kill("SIGKILL"),
    ended: (deadlineMs = DEADLINE_MS) => waitFor("its end", deadlineMs, () => end ?? undefined),
  };
}

/** A process with a client on the file, opened. */
export async function startClient(file: string, env: NodeJS.ProcessEnv = {}, durability = "full"): Promise<Child> {
  const child = startChild("client.mjs", [file, durability], env);
  await child.next("up");
  child.tell({ do: "open" });
  await child.next("opened");
  return child;
}
