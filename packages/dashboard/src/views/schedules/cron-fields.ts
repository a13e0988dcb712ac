/** Reads the fields of a cron pattern, for sentences about it. The server decides what is valid. */

export const MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
] as const;
export const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"] as const;

const NICKNAMES: Readonly<Record<string, string>> = {
  "@YEARLY": "0 0 1 1 *",
  "@ANNUALLY": "0 0 1 1 *",
  "@MONTHLY": "0 0 1 * *",
  "@WEEKLY": "0 0 * * 0",
  "@DAILY": "0 0 * * *",
  "@MIDNIGHT": "0 0 * * *",
  "@HOURLY": "0 * * * *",
};

/** Seconds first; patterns of five fields have the second 0. Null: it has another number of fields. */
export function cronFields(pattern: string): string[] | null {
  const text = pattern.trim().toUpperCase();
  const fields = (NICKNAMES[text] ?? text).split(/\s+/);
  if (fields.length !== 5 && fields.length !== 6) return null;
  const all = fields.length === 5 ? ["0", ...fields] : fields;
  return all.map((field) => (field === "?" ? "*" : field.replace(/^\*\/1$/, "*")));
}

/**
 * Whether it has fixed times of day (no `*` in seconds, minutes and hours). Such a time runs exactly once when clocks change; other
 * patterns follow the wall clock.
 */
export function namesTimes(pattern: string): boolean {
  const fields = cronFields(pattern);
  return fields !== null && fields.slice(0, 3).every((field) => !field.includes("*"));
}

/** The values of a field. `from`, `to` and `step` only if it is one range; `every` if it is `*` or a step of it. */
export interface Values {
  all: boolean;
  every: boolean;
  from: number;
  to: number;
  step: number;
  isRange: boolean;
  values: readonly number[];
}

/** Null: it is not of numbers, names, ranges and steps only. */
export function readValues(field: string, min: number, max: number, names: readonly string[] = []): Values | null {
  const valueOf = (text: string): number => {
    const named = names.findIndex((name) => name.slice(0, 3).toUpperCase() === text);
    if (named >= 0) return named + min;
    return /^\d{1,2}$/.test(text) ? Number(text) : Number.NaN;
  };
  const found = new Set<number>();
  const items = field.split(",").map((item) => {
    const match = /^([^-/]+)(?:-([^-/]+))?(?:\/(\d+))?$/.exec(item);
    if (match === null) return null;
    const [, first = "", last, stepText = "1"] = match;
    const every = first === "*";
    const from = every ? min : valueOf(first);
    let to = every ? max : last === undefined ? from : valueOf(last);
    // A range of weekdays may end on Sunday.
    if (max === 7 && to === 0 && last !== undefined && from > 0) to = 7;
    const step = Number(stepText);
    if (!(from >= min && to <= max && from <= to && step > 0)) return null;
    for (let value = from; value <= to; value += step) found.add(max === 7 ? value % 7 : value);
    return { every, from, to, step, isRange: every || last !== undefined };
  });
  if (items.includes(null)) return null;
  // The week begins on Monday.
  const rank = (value: number): number => (max === 7 ? (value + 6) % 7 : value);
  const values = [...found].toSorted((a, b) => rank(a) - rank(b));
  const [only] = items;
  if (only === undefined || only === null) return null;
  const all = values.length === (max === 7 ? 7 : max - min + 1);
  if (items.length === 1) return { ...only, all, values };
  return { all, every: false, isRange: false, from: values[0] ?? min, to: values.at(-1) ?? max, step: 1, values };
}
