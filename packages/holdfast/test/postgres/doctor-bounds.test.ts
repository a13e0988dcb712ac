import { describe, expect, it } from "vitest";
import { time } from "#src/stores/postgres/doctor/finding.js";
import { judgePrepared, judgeSlots, judgeTransactions, type Slot } from "#src/stores/postgres/doctor/horizon.js";
import { judgeConnections, judgeVersion } from "#src/stores/postgres/doctor/server.js";
import { judgeDeadRows } from "#src/stores/postgres/doctor/tables.js";

// Situations that a test cannot create: old servers, long waits, full disks.

describe("doctor rates", () => {
  it("a server older than PostgreSQL 15 as a problem", () => {
    expect(judgeVersion(140_011, "14.11")).toMatchObject({ level: "problem", found: expect.stringMatching(/14\.11/) });
    expect(judgeVersion(150_000, "15.0")).toMatchObject({ level: "ok" });
  });

  it.each([
    [59_000, "ok"],
    [61_000, "warning"],
    [20 * 60_000, "problem"],
  ])("a transaction open for %d ms as %s", (openMs, level) => {
    const open = { pid: 7, role: "app", application: "", state: "active", query: "SELECT 1", openMs, behind: null };
    expect(judgeTransactions([open])).toMatchObject([{ level }]);
  });

  it("the longest transaction and the oldest snapshot separately", () => {
    const shared = { role: "app", application: "", state: "active", query: "SELECT 1" };
    const longest = { ...shared, pid: 1, openMs: 120_000, behind: null };
    const furthest = { ...shared, pid: 2, openMs: 1_000, behind: 20_000 };
    const fine = { ...shared, pid: 3, openMs: 10, behind: 1 };
    const found = judgeTransactions([fine, longest, furthest]).map((finding) => finding.found);
    expect(found).toEqual([expect.stringMatching("pid 2 "), expect.stringMatching("pid 1 ")]);
  });

  it("an abandoned prepared transaction as a problem", () => {
    expect(judgePrepared([{ name: "x", openMs: 1_000, behind: 3 }])).toMatchObject([{ level: "ok" }]);
    expect(judgePrepared([{ name: "x", openMs: 3_600_000, behind: 3 }])).toMatchObject([
      { level: "problem", advice: expect.stringMatching(/ROLLBACK PREPARED 'x'/) },
    ]);
  });

  it.each<[string, Partial<Slot>, string]>([
    ["in use and close behind", {}, "ok"],
    ["not in use", { active: false }, "warning"],
    ["that keeps 2 GB of WAL", { retained: 2 * 1_073_741_824 }, "warning"],
    ["that keeps 20 GB of WAL", { retained: 20 * 1_073_741_824 }, "problem"],
    ["whose WAL is lost", { walStatus: "lost" }, "problem"],
    ["that holds back a million transactions", { behind: 1_000_000 }, "warning"],
  ])("a replication slot %s", (_what, slot, level) => {
    const usual: Slot = { name: "replica", active: true, walStatus: "reserved", retained: 1_024, behind: 5 };
    expect(judgeSlots([{ ...usual, ...slot }])).toMatchObject([{ level }]);
  });

  it.each([
    [50, 5, "ok"],
    [94, 5, "warning"],
    [97, null, "problem"],
    [96, null, "warning"],
    [20, null, "ok"],
  ])("%d of 97 used connections when a process needs %s", (used, wanted, level) => {
    expect(judgeConnections({ max: 97, used, ours: 3, wanted })).toMatchObject({ level });
  });

  it("dead rows only if they outnumber live ones", () => {
    const vacuumed = null;
    expect(judgeDeadRows({ live: 5_000_000, dead: 100_000, vacuumed })).toMatchObject({ level: "ok" });
    expect(judgeDeadRows({ live: 10, dead: 19_000, vacuumed })).toMatchObject({ level: "ok" });
    expect(judgeDeadRows({ live: 10, dead: 2_000_000, vacuumed })).toMatchObject({ level: "problem" });
  });

  it("uses singular and plural", () => {
    const open = { pid: 7, role: "app", application: "", state: "active", query: "SELECT 1", openMs: 5, behind: 1 };
    expect(judgeTransactions([open])[0]?.found).toContain("by 1 transaction:");
    expect(judgePrepared([{ name: "x", openMs: 5, behind: 1 }])[0]?.found).toBe("1 is prepared, not for long");
    expect(judgeConnections({ max: 97, used: 1, ours: 1, wanted: null }).found).toMatch(
      /^1 of 97 connections is in use/,
    );
    expect(judgeDeadRows({ live: 1, dead: 1, vacuumed: null }).found).toContain("1 dead row and 1 live one,");
    expect(judgeDeadRows({ live: 2, dead: 0, vacuumed: null }).found).toContain("0 dead rows and 2 live ones,");
  });

  it("shows times in the largest unit that fits twice", () => {
    expect([500, 1_500, 90_000, 600_000, 90_000_000, 864_000_000].map(time)).toEqual([
      "500 ms",
      "1,500 ms",
      "90 s",
      "10 min",
      "25 h",
      "10 days",
    ]);
  });
});
