import { spawnSync } from "node:child_process";
import { join } from "node:path";
import type { JobSummary } from "holdfast/admin";
import { describe, expect, it } from "vitest";
import { errorOf, timeOf } from "#src/cli/ui/format.js";
import { plainEnv } from "./scene.js";

const FORMAT = join(import.meta.dirname, "../../dist/cli/ui/format.js");

describe("jobs list", () => {
  const at = Date.parse("2026-01-01T00:00:00Z");
  const summary = (more: Partial<JobSummary>): JobSummary =>
    ({ createdAt: new Date(at - 9_000).toISOString(), error: null, ...more }) as JobSummary;
  const ago = (seconds: number): string => new Date(at - seconds * 1_000).toISOString();

  it("shows the time that fits the state", () => {
    const times = { dueAt: ago(-30), claimedAt: ago(3), startedAt: ago(2), finishedAt: ago(1) };
    expect(timeOf(summary({ ...times, state: "claimed" }), at)).toBe("3s ago");
    expect(timeOf(summary({ ...times, state: "running" }), at)).toBe("2s ago");
    expect(timeOf(summary({ ...times, state: "failed" }), at)).toBe("in 30s");
    expect(timeOf(summary({ ...times, state: "dead" }), at)).toBe("1s ago");
    expect(timeOf(summary({ state: "dead", finishedAt: null }), at)).toBe("9s ago");
  });

  it("shows no error of a completed job", () => {
    const error = { message: "no such address", code: null, at: ago(1), fingerprint: null };
    expect(errorOf(summary({ state: "completed", error }))).toBe("");
    expect(errorOf(summary({ state: "failed", error }))).toBe("no such address");
  });
});

it("a local time has its UTC offset", () => {
  const times = ["UTC", "Asia/Kolkata", "America/St_Johns"].map((TZ) => {
    const code = `const { clockOf } = await import(${JSON.stringify(FORMAT)}); process.stdout.write(clockOf("2026-01-01T00:00:00Z"))`;
    return spawnSync(process.execPath, ["--input-type=module", "-e", code], {
      env: plainEnv({ TZ }),
    }).stdout.toString();
  });
  expect(times).toEqual(["2026-01-01 00:00:00Z", "2026-01-01 05:30:00+05:30", "2025-12-31 20:30:00-03:30"]);
});
