import { spawnSync } from "node:child_process";
import { rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Disk faults for a child process, switched on and off while it runs. */
export interface FaultyDisk {
  /** The environment that gives the child such a disk. */
  env: NodeJS.ProcessEnv;
  slowSync(ms: number): void;
  fill(): void;
  makeRoom(): void;
  /** As much room is left for the database, its log and the log's index, beside what they have. */
  leave(bytes: number): void;
}

/** Builds the faults for the database `file`; skips the test, with the reason, where that cannot be done. */
export function faultyDisk(file: string, skip: (reason: string) => never): FaultyDisk {
  if (process.platform !== "linux") skip("disk faults are injected by LD_PRELOAD, which is for Linux");
  const library = join(dirname(file), "faults.so");
  const source = fileURLToPath(new URL("../fixtures/faults.c", import.meta.url));
  const built = spawnSync("cc", ["-shared", "-fPIC", "-o", library, source, "-ldl"], { encoding: "utf8" });
  if (built.error !== undefined) skip("there is no C compiler (cc) to build the disk faults with");
  if (built.status !== 0) throw new Error(`cc failed: ${built.stderr}`);
  return {
    env: { LD_PRELOAD: library, FAULTY_FILE: file },
    slowSync: (ms) => writeFileSync(`${file}.slow`, String(ms)),
    fill: () => writeFileSync(`${file}.full`, ""),
    makeRoom: () => rmSync(`${file}.full`),
    leave: (bytes) => writeFileSync(`${file}.quota`, String(bytesOf(file) + bytes)),
  };
}

function bytesOf(file: string): number {
  return ["", "-wal", "-shm"].reduce(
    (sum, part) => sum + (statSync(`${file}${part}`, { throwIfNoEntry: false })?.size ?? 0),
    0,
  );
}
