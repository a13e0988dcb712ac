import { unwatchFile, watchFile, type BigIntStats } from "node:fs";
import { showPath } from "../config/index.js";
import { fileOfStore } from "./bare-store.js";
import type { Context } from "./command.js";

/** A look is one call of the system. */
const LOOK_MS = 5_000;

/**
 * Says once that the SQLite file was removed or replaced: whoever has it open goes on with the old one, which nobody else
 * sees, and nothing fails. Answers a function that ends the looking.
 */
export function watchStoreFile({ config, output }: Context): () => void {
  const file = fileOfStore(config);
  if (file === null) return () => {};
  const look = (now: BigIntStats, before: BigIntStats): void => {
    // What is not there has the number 0.
    if (before.ino === 0n || (now.ino === before.ino && now.dev === before.dev)) return;
    stop();
    const what = now.ino === 0n ? "removed" : "replaced";
    output.warn(
      `${showPath(file, config.cwd)} was ${what} under this process, which still works on the old file; start it again`,
    );
  };
  const stop = (): void => unwatchFile(file, look as unknown as () => void);
  watchFile(file, { bigint: true, interval: LOOK_MS, persistent: false }, look);
  return stop;
}
