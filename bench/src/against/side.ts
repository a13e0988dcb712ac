import { fork } from "node:child_process";
import type { Kind, Orders, Response, Results } from "./protocol.js";

/** A process that measures one build. It handles one request at a time and is idle in between. */
export interface Side {
  ask<K extends Kind>(kind: K, order: Orders[K]): Promise<Results[K]>;
  end(): void;
}

// Longer than any request takes on the slowest store.
const SILENCE_MS = 120_000;

/** Starts the driver of a build. */
export function startSide(driver: string): Side {
  const child = fork(driver, {
    serialization: "advanced",
    // The AWS SDK logs a warning once per process.
    execArgv: ["--expose-gc", "--no-warnings"],
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  const exited = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(`could not be started: ${error.message}`));
    child.once("exit", (code, signal) => resolve(`ended early (${signal ?? code})`));
  });

  async function ask<K extends Kind>(kind: K, order: Orders[K]): Promise<Results[K]> {
    let silence: NodeJS.Timeout | undefined;
    const received = new Promise<Response>((resolve, reject) => {
      child.once("message", resolve);
      const fail = (reason: string): void => reject(new Error(`${kind}, asked of ${driver}: the process ${reason}`));
      void exited.then(fail);
      silence = setTimeout(() => fail(`did not respond for ${SILENCE_MS / 1_000} s`), SILENCE_MS);
      // Sending to a process that has exited fails; `exited` reports that.
      child.send({ kind, order }, () => {});
    });
    const response = await received.finally(() => clearTimeout(silence));
    if (response.kind === "error") throw new Error(`${kind}, asked of ${driver}, failed: ${response.error}`);
    return response.result as Results[K];
  }

  return {
    ask,
    end() {
      process.off("exit", kill);
      kill();
    },
  };
}
