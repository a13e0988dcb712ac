import { BadUsage, Failure, Interrupted } from "../errors.js";
import { cleanBlock } from "../../terminal-text.js";

/** Where a question is asked. */
export interface Asking {
  readonly stdin: NodeJS.ReadableStream & { isTTY?: boolean };
  readonly stderr: NodeJS.WritableStream & { isTTY?: boolean };
  readonly signal: AbortSignal;
}

/** Passes with `yes`; asks on a terminal; refuses elsewhere. Anything but yes is no. */
export async function confirm(question: string, yes: boolean, { stdin, stderr, signal }: Asking): Promise<void> {
  if (yes) return;
  if (stdin.isTTY !== true || stderr.isTTY !== true) {
    throw new BadUsage(`${cleanBlock(question)} Nobody can be asked here, so nothing was done`, "add --yes to do it");
  }
  const { createInterface } = await import("node:readline/promises");
  const asking = createInterface({ input: stdin, output: stderr });
  try {
    // Readline takes Ctrl-C for itself.
    const interrupted = new Promise<never>((_resolve, reject) => {
      asking.once("SIGINT", () => reject(new Interrupted("SIGINT")));
      asking.once("close", () => reject(new Failure("nothing was done")));
    });
    const answer = await Promise.race([asking.question(`${cleanBlock(question)} [y/N] `, { signal }), interrupted]);
    if (!/^y(?:es)?$/i.test(answer.trim())) throw new Failure("nothing was done");
  } finally {
    asking.close();
  }
}
