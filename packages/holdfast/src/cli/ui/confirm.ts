import { UsageError, CommandError, InterruptedError } from "../errors.js";
import { cleanBlock } from "../../terminal-text.js";

/** The streams of a confirmation prompt. */
export interface Prompt {
  readonly stdin: NodeJS.ReadableStream & { isTTY?: boolean };
  readonly stderr: NodeJS.WritableStream & { isTTY?: boolean };
  readonly signal: AbortSignal;
}

/** Returns with `yes`, asks on a terminal, and throws elsewhere. Any reply but yes means no. */
export async function confirm(question: string, yes: boolean, { stdin, stderr, signal }: Prompt): Promise<void> {
  if (yes) return;
  if (stdin.isTTY !== true || stderr.isTTY !== true) {
    throw new UsageError(
      `${cleanBlock(question)} Confirmation required, but stdin is not a terminal. Nothing was changed.`,
      "add --yes to confirm",
    );
  }
  const { createInterface } = await import("node:readline/promises");
  const prompt = createInterface({ input: stdin, output: stderr });
  try {
    // Readline handles Ctrl-C itself.
    const interrupted = new Promise<never>((_resolve, reject) => {
      prompt.once("SIGINT", () => reject(new InterruptedError("SIGINT")));
      prompt.once("close", () => reject(new CommandError("not confirmed; nothing was changed")));
    });
    const reply = await Promise.race([prompt.question(`${cleanBlock(question)} [y/N] `, { signal }), interrupted]);
    if (!/^y(?:es)?$/i.test(reply.trim())) throw new CommandError("not confirmed; nothing was changed");
  } finally {
    prompt.close();
  }
}
