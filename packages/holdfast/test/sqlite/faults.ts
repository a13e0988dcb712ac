import { spawnSync } from "node:child_process";
import { rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Disk faults for a child process, switched on and off while it runs. */
export interface FaultyDisk {
  /** The environment variables for the child. */
  env: NodeJS.ProcessEnv;
  slowSync(ms: number): void;
  fill(): void;
  free(): void;
  /** The database, its log and the log's index can grow by this much together. */
  leave(bytes: number): void;
}

/** Builds the faults for the database `file`. Skips the test, with the reason, where that is not possible. */
export function faultyDisk(file: string, skip: (reason: string) => never): FaultyDisk {
  if (process.platform !== "linux") skip("disk faults need LD_PRELOAD, which only Linux has");
  const library = join(dirname(file), "faults.so");
  const source = fileURLToPath(new URL("../fixtures/faults.c", import.meta.url));
  const built = spawnSync("cc", ["-shared", "-fPIC", "-o", library, source, "-ldl"], { encoding: "utf8" });
  if (built.error !== undefined) skip("no C compiler (cc) to build the disk faults");
  if (built.status !== 0) throw new Error(`cc failed: ${built.stderr}`);
  return {
    env: { LD_PRELOAD: library, FAULTY_FILE: file },
    slowSync: (ms) => writeFileSync(`${file}.slow`, String(ms)),
    fill: () => writeFileSync(`${file}.full`, ""),
    free: () => rmSync(`${file}.full`),
    leave: (bytes) => writeFileSync(`${file}.quota`, String(bytesOf(file) + bytes)),
  };
}

function bytesOf(file: string): number {
  return ["", "-wal", "-shm"].reduce(
    (sum, part) => sum + (statSync(`${file}${part}`, { throwIfNoEntry: false })?.size ?? 0),
    0,
  );
}
