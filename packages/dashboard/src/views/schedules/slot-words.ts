import { clock } from "../../app/format.js";

const DAY_MS = 86_400_000;
const WEEKDAY = new Intl.DateTimeFormat("en-GB", { weekday: "short" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const YEAR = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

/** The clock beside a relative time: "14:45", "Tue 02:30", "13 Dec 08:30". A date with its year has been shown already. */
export function clockBeside(at: number, now: number): string {
  const distance = Math.abs(at - now);
  if (new Date(at).toDateString() === new Date(now).toDateString()) return clock(at);
  if (distance < 6 * DAY_MS) return `${WEEKDAY.format(at)} ${clock(at)}`;
  return distance > 7 * DAY_MS ? clock(at) : `${DAY.format(at)} ${clock(at)}`;
}

/** "14:45", "Tue 02:30", "13 Dec 2026 08:30". */
export function slotTime(at: number, now: number): string {
  const distance = Math.abs(at - now);
  if (new Date(at).toDateString() === new Date(now).toDateString()) return clock(at);
  return `${(distance < 6 * DAY_MS ? WEEKDAY : YEAR).format(at)} ${clock(at)}`;
}

/** Why a slot became no job, or a late one. Null: it became a job on time. */
export function reasonWords(reason: string | null): string | null {
  switch (reason) {
    case null:
      return null;
    case "late":
      return "late: no scheduler ran at its time";
    case "manual":
      return "run manually";
    case "missed":
      return "missed: no scheduler ran at its time";
    case "overlap":
      return "skipped: an earlier run was not finished";
    default:
      return reason.startsWith("refused: ") ? `not stored: ${reason.slice(9)}` : reason;
  }
}
