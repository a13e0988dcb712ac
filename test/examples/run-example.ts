import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

const EXAMPLES = join(import.meta.dirname, "../../examples");

/** How a process ended. */
export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** An example that runs in a process. */
export class RunningExample {
  readonly ended: Promise<Ended>;
  readonly #child: ChildProcess;
  readonly #waiters = new Set<() => void>();
  #stdout = "";
  #stderr = "";
  #hasEnded = false;

  constructor(child: ChildProcess) {
    this.#child = child;
    child.stdout?.on("data", (text: Buffer) => {
      this.#stdout += text.toString();
      for (const look of this.#waiters) look();
    });
    child.stderr?.on("data", (text: Buffer) => (this.#stderr += text.toString()));
    this.ended = new Promise((resolve) =>
      child.once("close", (code) => {
        this.#hasEnded = true;
        resolve({ code, stdout: this.#stdout, stderr: this.#stderr });
        for (const look of this.#waiters) look();
      }),
    );
  }

  get stdout(): string {
    return this.#stdout;
  }

  /** Waits until the output matches. Fails if the process ends before. */
  printed(pattern: RegExp): Promise<RegExpExecArray> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const found = pattern.exec(this.#stdout);
        if (found === null && !this.#hasEnded) return;
        this.#waiters.delete(look);
        if (found !== null) resolve(found);
        else reject(new Error(`the example ended without ${String(pattern)}:\n${this.#stdout}\n${this.#stderr}`));
      };
      this.#waiters.add(look);
      look();
    });
  }

  end(signal: NodeJS.Signals): Promise<Ended> {
    this.#child.kill(signal);
    return this.ended;
  }
}

export interface ExampleOptions {
  args?: readonly string[];
  /** Options of Node. */
  node?: readonly string[];
  /** Where it makes temporary folders. */
  temporary?: string;
}

/** Starts an example as `npm run example` does. */
export function startExample(name: string, { args = [], node = [], temporary }: ExampleOptions = {}): RunningExample {
  const child = spawn(process.execPath, [...node, join(EXAMPLES, name, "dist/main.js"), ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...(temporary !== undefined && { TMPDIR: temporary, TEMP: temporary }) },
  });
  return new RunningExample(child);
}

export interface TemporaryFolder {
  path: string;
  remove: () => Promise<void>;
}

export async function temporaryFolder(): Promise<TemporaryFolder> {
  const path = await mkdtemp(join(tmpdir(), "holdfast-example-"));
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
}

/** A folder that is deleted after the test. */
export async function folderOfTest(): Promise<string> {
  const { path, remove } = await temporaryFolder();
  onTestFinished(remove);
  return path;
}
