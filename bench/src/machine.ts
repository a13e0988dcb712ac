import { arch, availableParallelism, cpus, platform, release, totalmem } from "node:os";

/** The machine, which figures depend on. */
export interface Machine {
  cores: number;
  cpu: string;
  memoryMb: number;
  system: string;
  node: string;
}

export function machine(): Machine {
  return {
    cores: availableParallelism(),
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    memoryMb: Math.round(totalmem() / 1_048_576),
    system: `${platform()} ${release()} ${arch()}`,
    node: process.version,
  };
}
