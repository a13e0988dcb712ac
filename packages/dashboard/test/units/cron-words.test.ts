import { describe, expect, it } from "vitest";
import { cronWords, everyText, everyWords } from "../../src/views/schedules/cron-words.js";

const SENTENCES: Readonly<Record<string, string>> = {
  "* * * * *": "Every minute",
  "*/1 * * * *": "Every minute",
  "*/15 * * * *": "Every 15 minutes",
  "*/7 * * * *": "At every 7th minute of every hour",
  "*/20 * * * *": "Every 20 minutes",
  "0 * * * *": "At minute 0 of every hour",
  "@hourly": "At minute 0 of every hour",
  "0,49 * * * *": "At minute 0 and 49 of every hour",
  "5,15,25 * * * *": "At minute 5, 15 and 25 of every hour",
  "0-10 * * * *": "Every minute from minute 0 to 10 of every hour",
  "*/15 8-18 * * *": "Every 15 minutes, from 08:00 to 18:45",
  "*/15 8-18 * * MON-FRI": "Every 15 minutes, from 08:00 to 18:45, Monday to Friday",
  "* 9 * * *": "Every minute of the hour 09:00",
  "*/30 8,12 * * *": "Every 30 minutes of the hours 08:00 and 12:00",
  "0 */2 * * *": "Every 2 hours, at minute 0",
  "30 */6 * * *": "Every 6 hours, at minute 30",
  "0 8-18 * * *": "Every hour from 08:00 to 18:00",
  "0 8-18/2 * * *": "Every 2 hours from 08:00 to 18:00",
  "0 8-17/2 * * *": "Every 2 hours from 08:00 to 16:00",
  "0,30 8-18 * * *": "At minute 0 and 30 of every hour, from 08:00 to 18:30",
  "30 2 * * *": "At 02:30, every day",
  "@daily": "At 00:00, every day",
  "@midnight": "At 00:00, every day",
  "0 8,12,18 * * *": "At 08:00, 12:00 and 18:00, every day",
  "0,30 8,9 * * *": "At 08:00, 08:30, 09:00 and 09:30, every day",
  "0 1,2,3,5,7,11,13,17 * * *": "At 01:00, 02:00, 03:00, 05:00, 07:00, 11:00, 13:00 and 17:00, every day",
  "30 2 * * MON-FRI": "At 02:30, Monday to Friday",
  "30 2 * * mon-fri": "At 02:30, Monday to Friday",
  "30 2 * * 1-5": "At 02:30, Monday to Friday",
  "30 2 * * SAT-SUN": "At 02:30, every Saturday and Sunday",
  "30 2 * * FRI-SUN": "At 02:30, Friday to Sunday",
  "0 18 * * MON": "At 18:00, every Monday",
  "0 4 * * 0": "At 04:00, every Sunday",
  "0 4 * * 7": "At 04:00, every Sunday",
  "@weekly": "At 00:00, every Sunday",
  "0 4 * * MON,WED": "At 04:00, every Monday and Wednesday",
  "30 2 * * SUN#2": "At 02:30, on the second Sunday of every month",
  "0 8 * * FRI#L": "At 08:00, on the last Friday of every month",
  "0 8 * * 5L": "At 08:00, on the last Friday of every month",
  "0 8 * * MON#1,MON#3": "At 08:00, on the first Monday and the third Monday of every month",
  "0 8 * 3 MON#1": "At 08:00, on the first Monday of March",
  "0 8 * * MON-FRI#1": "0 8 * * MON-FRI#1",
  "0 8 L * *": "At 08:00, on the last day of every month",
  "0 8 LW * *": "At 08:00, on the last weekday of every month",
  "0 8 15W * *": "At 08:00, on the weekday nearest to day 15 of every month",
  "0 8 1 * *": "At 08:00, on day 1 of every month",
  "@monthly": "At 00:00, on day 1 of every month",
  "0 8 1,15 * *": "At 08:00, on days 1 and 15 of every month",
  "0 8 1,15,L * *": "At 08:00, on day 1, day 15 and the last day of every month",
  "0 8 1-7 * *": "At 08:00, on days 1 to 7 of every month",
  "0 8 */2 * *": "At 08:00, on every 2nd day of every month",
  "0 8 1-15/3 * *": "At 08:00, on every 3rd day from day 1 to 15 of every month",
  "0 6 27 11 *": "At 06:00, on 27 November",
  "@yearly": "At 00:00, on 1 January",
  "0 8 1 JAN-JUN *": "At 08:00, on day 1 of January to June",
  "0 8 1 1,7 *": "At 08:00, on day 1 of January and July",
  "0 8 * 12 *": "At 08:00, every day in December",
  "0 8 * 12 FRI": "At 08:00, every Friday in December",
  "*/10 * * 12 *": "Every 10 minutes, every day in December",
  "0 8 13 * FRI": "At 08:00, on day 13 of every month, and every Friday",
  "0 8 13 * +FRI": "At 08:00, on day 13 of every month, only if it is a Friday",
  "0 8 ? * ?": "At 08:00, every day",
  "0 8 * * *  ": "At 08:00, every day",
  "*/10 * * * * *": "Every 10 seconds",
  "* * * * * *": "Every second",
  "15 30 8 * * *": "At 08:30:15, every day",
  "*/20 30 9 * * *": "Every 20 seconds in the minute 09:30",
  "0 30 9 * * MON": "At 09:30, every Monday",
  "10,20 * * * * *": "At second 10 and 20 of every minute",
  "30 */5 * * * *": "At second 30: every 5 minutes",
};

describe("cron patterns in words", () => {
  for (const [pattern, words] of Object.entries(SENTENCES)) {
    it(`${pattern} is ${JSON.stringify(words)}`, () => expect(cronWords(pattern)).toBe(words));
  }

  it("shows what it cannot read as it is", () => {
    for (const pattern of ["", "0 8", "0 25 * * *", "nonsense at all of five", "0 8 32 * *", "5-1 * * * *", "@never"]) {
      expect(cronWords(pattern)).toBe(pattern);
    }
  });

  it("never throws on any text", () => {
    for (const part of ["*", "0", "L", "#", "-", "/", "W", "+", ",", "*/0", "1/2", "W1", "L-3", "99", "MON#9"]) {
      for (let at = 0; at < 5; at++) {
        const fields = ["0", "8", "*", "*", "*"];
        fields[at] = part;
        expect(cronWords(fields.join(" "))).not.toMatch(/null|undefined|NaN/);
      }
    }
  });

  it("says intervals in their largest unit", () => {
    expect([1_000, 90_000, 900_000, 3_600_000, 86_400_000, 1_500].map(everyWords)).toEqual([
      "Every second",
      "Every 90 seconds",
      "Every 15 minutes",
      "Every hour",
      "Every day",
      "Every 1500 milliseconds",
    ]);
    expect([1_000, 900_000, 1_500].map(everyText)).toEqual(["1s", "15m", "1500ms"]);
  });
});
