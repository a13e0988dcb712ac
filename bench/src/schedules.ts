import type { Filling } from "./bed.js";
import { orderedId } from "./jobs.js";

const ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"];
const DAY_MS = 86_400_000;

export interface FilledSchedule {
  name: string;
  version: string;
  cron: string;
  timezone: string;
  nextRunAt: number;
}

/** Some thousand different patterns in a few time zones, as many users would have. All have a slot this minute. */
export function schedulesOf({ kind, count }: Filling, now: number): FilledSchedule[] {
  const minute = Math.floor(now / 60_000) * 60_000;
  const walls = ZONES.map((zone) => wallTime(zone, minute));
  return Array.from({ length: count }, (_, index) => ({
    name: `${kind} ${index}`,
    version: orderedId(now),
    cron: patternAt(walls[index % ZONES.length] as WallTime, index),
    timezone: ZONES[index % ZONES.length] as string,
    nextRunAt: kind === "due schedules" ? minute : now + DAY_MS + index,
  }));
}

interface WallTime {
  hour: number;
  minute: number;
}

function wallTime(zone: string, at: number): WallTime {
  const options = { timeZone: zone, hourCycle: "h23", hour: "numeric", minute: "numeric" } as const;
  const [hour = 0, minute = 0] = new Intl.DateTimeFormat("en-US", options).format(at).split(":").map(Number);
  return { hour, minute };
}

function patternAt({ hour, minute }: WallTime, index: number): string {
  return `${minute},${index % 60} ${hour},${index % 24} * * *`;
}
