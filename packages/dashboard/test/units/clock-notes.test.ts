import { holdfast } from "holdfast";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it } from "vitest";
import { clockNotes } from "../../src/views/schedules/clock-notes.js";
import { changeBetween, offsetAt, offsetLabel, wallAt, zoneLabel } from "../../src/views/schedules/zones.js";

/** The notes on the next five runs, as the server previews them. */
async function notesOn(cron: string, timezone: string, from: string): Promise<string[]> {
  const hf = await holdfast({ store: "sqlite::memory:", logger: false, clock: fakeClock(new Date(from)) });
  const runs = await hf.schedules.preview({ cron, timezone }, 5);
  await hf.close();
  return clockNotes(
    cron,
    timezone,
    runs.map((run) => run.getTime()),
  ).map(({ text }) => text);
}

describe("notes on changes of clocks", () => {
  it("C-19 says when a time does not exist", async () => {
    expect(await notesOn("30 2 * * SUN#2", "America/New_York", "2026-12-01T00:00:00Z")).toEqual([
      "On 14 March 2027 clocks in New York go from 02:00 to 03:00. 02:30 does not exist, so this slot runs at 03:00, once.",
    ]);
    expect(await notesOn("30 2 * * *", "Europe/Berlin", "2027-03-26T12:00:00Z")).toEqual([
      "On 28 March 2027 clocks in Berlin go from 02:00 to 03:00. 02:30 does not exist, so this slot runs at 03:00, once.",
    ]);
  });

  it("joins several times that do not exist", async () => {
    expect(await notesOn("15,45 2 * * *", "Europe/Berlin", "2027-03-27T12:00:00Z")).toEqual([
      "On 28 March 2027 clocks in Berlin go from 02:00 to 03:00. 02:15 and 02:45 do not exist, so these slots run at 03:00, once.",
    ]);
  });

  it("says when a time occurs twice", async () => {
    expect(await notesOn("30 1 * * *", "America/New_York", "2026-10-30T12:00:00Z")).toEqual([
      "On 1 November 2026 clocks in New York go back from 02:00 to 01:00. 01:30 occurs twice, and this slot runs the first time, once.",
    ]);
    expect(await notesOn("0 1 * * *", "America/New_York", "2026-10-30T12:00:00Z")).toHaveLength(1);
  });

  it("is silent for times that exist once", async () => {
    for (const cron of ["0 2 * * *", "30 0 * * *", "0 3 * * *", "0 12 * * *"]) {
      expect(await notesOn(cron, "America/New_York", "2026-10-30T12:00:00Z")).toEqual([]);
    }
    for (const cron of ["59 1 * * *", "0 3 * * *", "30 3 * * *"]) {
      expect(await notesOn(cron, "Europe/Berlin", "2027-03-26T12:00:00Z")).toEqual([]);
    }
    expect(await notesOn("30 2 * * *", "UTC", "2027-03-26T12:00:00Z")).toEqual([]);
    expect(await notesOn("30 2 * * *", "Asia/Tokyo", "2027-03-26T12:00:00Z")).toEqual([]);
  });

  it("knows changes of half an hour", async () => {
    expect(await notesOn("15 2 * * *", "Australia/Lord_Howe", "2026-10-02T20:00:00Z")).toEqual([
      "On 4 October 2026 clocks in Lord Howe go from 02:00 to 02:30. 02:15 does not exist, so this slot runs at 02:30, once.",
    ]);
  });

  it("says that repeating patterns follow the wall clock", async () => {
    expect(await notesOn("*/30 * * * *", "Europe/Berlin", "2027-03-28T00:01:00Z")).toEqual([
      "On 28 March 2027 clocks in Berlin go from 02:00 to 03:00. No wall clock shows a time between 02:00 and 03:00, so no slot is there.",
    ]);
    expect(await notesOn("*/30 * * * *", "America/New_York", "2026-11-01T04:31:00Z")).toEqual([
      "On 1 November 2026 clocks in New York go back from 02:00 to 01:00. Times from 01:00 to 02:00 occur twice, and slots run both times.",
    ]);
    expect(await notesOn("0 */6 * * *", "Europe/Berlin", "2027-03-27T12:00:00Z")).toEqual([]);
  });

  it("has no notes for a pattern that it cannot read", () => {
    expect(clockNotes("nonsense", "Europe/Berlin", [0])).toEqual([]);
  });
});

describe("time zones", () => {
  it("finds the instant of a change", () => {
    const from = Date.parse("2027-03-27T00:00:00Z");
    const change = changeBetween("Europe/Berlin", from, from + 3 * 86_400_000);
    expect(new Date(change).toISOString()).toBe("2027-03-28T01:00:00.000Z");
    expect(offsetAt("Europe/Berlin", change) - offsetAt("Europe/Berlin", change - 1)).toBe(3_600_000);
  });

  it("shows wall-clock times, labels and offsets", () => {
    const at = Date.parse("2027-03-14T07:00:05Z");
    expect(wallAt("America/New_York", at)).toMatchObject({ time: "03:00:05", day: "Sun 14 Mar 2027" });
    expect(wallAt("Asia/Kolkata", at).time).toBe("12:30:05");
    expect(zoneLabel("America/Argentina/Buenos_Aires")).toBe("Buenos Aires");
    expect(["UTC", "America/New_York", "Asia/Kolkata"].map((zone) => offsetLabel(zone, at))).toEqual([
      "UTC",
      "UTC−4",
      "UTC+5:30",
    ]);
  });
});
