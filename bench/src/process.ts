import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { OrderOf, ResultOf, RoleName } from "./roles/index.js";
import type { FromRole, ToRole } from "./roles/role.js";

/** A role that runs in a new process, so that neither side of a comparison is already warm. */
export interface RoleProcess<Result> {
  /** Everything is open. */
  ready: Promise<void>;
  result: Promise<Result>;
  go(): void;
  stop(): void;
}

// A process without a message for this long hangs; a batch takes milliseconds.
const SILENCE_MS = 120_000;

const children = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

export function startRole<Name extends RoleName>(
  role: Name,
  order: OrderOf<Name>,
  onProgress: (value: number) => void = () => {},
): RoleProcess<ResultOf<Name>> {
  const child = fork(fileURLToPath(new URL("./child.js", import.meta.url)), {
    serialization: "advanced",
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  children.add(child);
  // Sending to a process that has exited fails; its exit is reported separately.
  const send = (message: ToRole): void => void child.send(message, () => {});

  let isReady: () => void = () => {};
  let notReady: (error: Error) => void = () => {};
  const ready = new Promise<void>((resolve, reject) => {
    isReady = resolve;
    notReady = reject;
  });
  const result = new Promise<ResultOf<Name>>((resolve, reject) => {
    const fail = (reason: string): void => {
      const error = new Error(`the process for ${role} ${reason}`);
      notReady(error);
      reject(error);
    };
    const silence = setTimeout(() => {
      fail(`did not respond for ${SILENCE_MS / 1_000} s`);
      child.kill("SIGKILL");
    }, SILENCE_MS);
    child.on("message", (message: FromRole) => {
      silence.refresh();
      if (message.kind === "ready") isReady();
      else if (message.kind === "progress") onProgress(message.value);
      else if (message.kind === "result") resolve(message.result as ResultOf<Name>);
      else fail(`failed: ${message.error}`);
    });
    child.once("error", (error) => fail(`could not be started: ${error.message}`));
    child.once("exit", (code, signal) => {
      clearTimeout(silence);
      children.delete(child);
      fail(`ended early (${signal ?? code})`);
    });
  });
  // The caller awaits one of the promises; the other must not become an unhandled rejection.
  ready.catch(() => {});
  result.catch(() => {});
  send({ kind: "order", role, order });
  return { ready, result, go: () => send({ kind: "go" }), stop: () => send({ kind: "stop" }) };
}

/** Runs a role to its end. */
export async function playRole<Name extends RoleName>(
  role: Name,
  order: OrderOf<Name>,
  onProgress?: (value: number) => void,
): Promise<ResultOf<Name>> {
  const process = startRole(role, order, onProgress);
  await process.ready;
  process.go();
  return process.result;
}
