// The entry point of every process of a trial. It runs its role and sends the result back.
import { inspect } from "node:util";
import { roles, type RoleName } from "./roles/index.js";
import type { FromRole, Role, Stage, ToRole } from "./roles/role.js";

function send(message: FromRole): void {
  process.send?.(message);
}

let go: () => void = () => {};
let stop: () => void = () => {};
const begun = new Promise<void>((resolve) => (go = resolve));
const stage: Stage = {
  ready() {
    send({ kind: "ready" });
    return begun;
  },
  progress: (value) => send({ kind: "progress", value }),
  stopped: new Promise<void>((resolve) => (stop = resolve)),
};

async function play(name: string, order: unknown): Promise<void> {
  try {
    const role = (await roles[name as RoleName]()) as Role<unknown, unknown>;
    const result = await role(order, stage);
    send({ kind: "result", result });
  } catch (error) {
    send({ kind: "error", error: inspect(error) });
    process.exitCode = 1;
  }
  // A failed worker would keep running, so exit. The message is sent once the channel has closed.
  process.once("disconnect", () => process.exit());
  process.disconnect();
}

process.on("message", (message: ToRole) => {
  if (message.kind === "order") void play(message.role, message.order);
  else if (message.kind === "go") go();
  else stop();
});
