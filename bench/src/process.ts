import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { OrderOf, ResultOf, RoleName } from "./roles/index.js";
import type { FromRole, ToRole } from "./roles/role.js";

/** A role under way in a process of its own: fresh, so that neither side of a comparison has warmed up before. */
export interface RoleProcess<Result> {
  /** Everything is open. */
  ready: Promise<void>;
  result: Promise<Result>;
  go(): void;
  stop(): void;
}

// A process that says nothing for this long hangs; a batch takes milliseconds.
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
  // A process that is gone cannot be told anything; that it went is told by its exit.
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
      fail(`said nothing for ${SILENCE_MS / 1_000} s`);
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
  // Whoever awaits the one hears of the failure; the other must not count as unhandled.
  ready.catch(() => {});
  result.catch(() => {});
  send({ kind: "order", role, order });
  return { ready, result, go: () => send({ kind: "go" }), stop: () => send({ kind: "stop" }) };
}

/** Plays a role from beginning to end. */
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
