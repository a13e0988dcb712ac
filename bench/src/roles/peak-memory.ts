import { readFileSync } from "node:fs";

const SAMPLE_MS = 50;
const MEGABYTE = 1_048_576;

/** Samples the resident memory of this process. `stop` returns the peak in megabytes. */
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
 * The peak between the samples, as Linux reports it. Not `process.resourceUsage().maxRSS`, which includes the memory of
 * the parent process.
 */
function highWaterMark(): number {
  if (process.platform !== "linux") return 0;
  const line = /^VmHWM:\s+(?<kilobytes>\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"));
  return Number(line?.groups?.["kilobytes"] ?? 0) * 1_024;
}
