import { expect, it } from "vitest";
import { RateLimits } from "../dist/rate-limit.js";

const MAX_ATTEMPTS = 10;

interface Bucket {
  calls: number;
  periodMs: number;
}

interface Simulation extends Bucket {
  jobs: number;
  /** Calls that a job makes, by its number. */
  callsOf: (job: number) => number;
  processes?: number;
  /** A job arrives each so many milliseconds; default: all at once. */
  everyMs?: number;
}

/** Runs jobs against a limit in simulated time. Returns the attempts that the jobs took, and how long all of them took. */
function simulate({ jobs, callsOf, processes = 1, everyMs = 0, calls, periodMs }: Simulation): {
  most: number;
  tookMs: number;
} {
  const clock = { ms: 0, now: () => clock.ms };
  const limits = Array.from({ length: processes }, () => new RateLimits(clock));
  let [left, opens] = [calls, periodMs];
  const refusal = (): number | null => {
    if (clock.ms >= opens) [left, opens] = [calls, clock.ms + periodMs];
    return left-- > 0 ? null : opens - clock.ms;
  };
  const due = Array.from({ length: jobs }, (_, job) => ({ job, at: job * everyMs, attempt: 1, left: callsOf(job) }));
  let most = 0;
  while (due.length > 0) {
    due.sort((a, b) => a.at - b.at || a.job - b.job);
    const run = due.shift()!;
    clock.ms = Math.max(clock.ms, run.at);
    most = Math.max(most, run.attempt);
    const known = limits[run.job % processes]!;
    let wait = known.waitBefore(run.attempt);
    if (wait === 0) {
      known.willCall(run.left);
      while (run.left > 0 && wait === 0) {
        const retryAfterMs = refusal();
        if (retryAfterMs === null) run.left--;
        else wait = known.refused({ retryAfterMs, rate: { calls, periodMs: retryAfterMs } }, run.attempt);
      }
    }
    if (wait > 0) due.push({ ...run, at: clock.ms + wait, attempt: run.attempt + 1 });
  }
  return { most, tookMs: clock.ms };
}

const BUCKET: Bucket = { calls: 10, periodMs: 10_000 };

it("a thousand jobs at once keep to a limit with few attempts", () => {
  const { most, tookMs } = simulate({ ...BUCKET, jobs: 1_000, callsOf: () => 1 });
  expect(most).toBeLessThan(MAX_ATTEMPTS);
  // At 1 call per second they need 1,000 s.
  expect(tookMs).toBeLessThan(2_000_000);
});

it("jobs with several calls, several processes and a steady stream do too", () => {
  const several = (job: number): number => 1 + (job % 4);
  for (const scene of [
    { jobs: 500, callsOf: several },
    { jobs: 500, callsOf: () => 1, processes: 4 },
    { jobs: 500, callsOf: several, processes: 4 },
    { jobs: 500, callsOf: () => 1, everyMs: 900 },
    { jobs: 500, callsOf: several, everyMs: 3_000, processes: 2 },
  ]) {
    expect([scene, simulate({ ...BUCKET, ...scene }).most < MAX_ATTEMPTS]).toEqual([scene, true]);
  }
});

it("a single job waits exactly as long as Discord says", () => {
  const limits = new RateLimits({ now: () => 1_000 });
  expect(limits.waitBefore(1)).toBe(0);
  expect(limits.refused({ retryAfterMs: 1_234, rate: null }, 1)).toBe(1_234);
});

it("later jobs wait behind it, and its own time has come", () => {
  const clock = { ms: 0, now: () => clock.ms };
  const limits = new RateLimits(clock);
  expect(limits.refused({ retryAfterMs: 1_000, rate: { calls: 2, periodMs: 1_000 } }, 1)).toBe(1_000);
  expect(limits.waitBefore(1)).toBe(1_500);
  expect(limits.waitBefore(2)).toBe(2_000);
  clock.ms = 1_000;
  expect(limits.waitBefore(2)).toBe(0);
  expect(limits.waitBefore(1)).toBe(1_500);
  clock.ms = 10_000;
  expect(limits.waitBefore(1)).toBe(0);
});

it("a limit of a day or more is asked about again after a day", () => {
  const limits = new RateLimits({ now: () => 0 });
  expect(limits.refused({ retryAfterMs: 1e12, rate: null }, 1)).toBe(86_400_000);
});
