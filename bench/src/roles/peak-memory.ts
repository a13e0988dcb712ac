import { readFileSync } from "node:fs";

const SAMPLE_MS = 50;
const MEGABYTE = 1_048_576;

/** Follows the resident memory of this process; `stop` answers its peak in megabytes. */
export function watchMemory(): { stop(): number } {
  let peak = process.memoryUsage.rss();
  const look = (): void => {
    peak = Math.max(peak, process.memoryUsage.rss());
  };
  const timer = setInterval(look, SAMPLE_MS);
  timer.unref();
  return {
    stop() {
      clearInterval(timer);
      look();
      return Math.max(peak, highWaterMark()) / MEGABYTE;
    },
  };
}

/**
 * What Linux saw between the samples. Not `process.resourceUsage().maxRSS`, which begins with the memory of the process
 * that started this one.
 */
function highWaterMark(): number {
  if (process.platform !== "linux") return 0;
  const line = /^VmHWM:\s+(?<kilobytes>\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"));
  return Number(line?.groups?.["kilobytes"] ?? 0) * 1_024;
}
