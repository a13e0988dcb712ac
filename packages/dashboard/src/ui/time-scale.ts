// Where the parts of a chart over time are drawn. Pure.

export interface Layer {
  /** One value per period; null: a gap. */
  values: readonly (number | null)[];
  /** Of the colour: a state. */
  state: string;
  kind: "bars" | "line" | "dashed";
}

export type Scale = (value: number) => number;

/** The part of a period that its bar takes. */
const BAR = 0.82;
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const TICKS = [5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR];

export function newScale(from: number, to: number, first: number, last: number): Scale {
  const factor = to === from ? 0 : (last - first) / (to - from);
  return (value) => Math.round((first + (value - from) * factor) * 10) / 10;
}

/** The largest value, or the largest sum of bars. */
export function topOf(layers: readonly Layer[]): number {
  const bars = layers.filter(({ kind }) => kind === "bars");
  const sums = bars[0]?.values.map((_, at) => bars.reduce((sum, { values }) => sum + (values[at] ?? 0), 0)) ?? [];
  const lines = layers.flatMap(({ kind, values }) => (kind === "bars" ? [] : values.map((value) => value ?? 0)));
  return Math.max(0, ...sums, ...lines);
}

/** The top of an axis that begins at 0, so that its steps are round numbers. */
export function niceTop(max: number, steps = 4): number {
  if (!(max > 0)) return steps;
  const step = max / steps;
  const power = 10 ** Math.floor(Math.log10(step));
  // Small counts have whole steps.
  const factors = power < 10 ? [1, 2, 2.5, 5, 10] : [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];
  const nice = factors.find((factor) => factor * power >= step * 0.999_999) ?? 10;
  return nice * power * steps;
}

/** Round local times from one to another, at most so many. */
export function timeTicks(from: number, to: number, most: number): number[] {
  const wanted = (to - from) / Math.max(1, most);
  const step = TICKS.find((each) => each >= wanted) ?? Math.ceil(wanted / DAY) * DAY;
  const offset = zoneOffset(from);
  const ticks: number[] = [];
  for (let time = Math.ceil((from - offset) / step) * step + offset; time <= to; time += step) {
    // Midnight stays midnight when the clocks change.
    ticks.push(time + (step < DAY ? 0 : zoneOffset(time) - offset));
  }
  return ticks;
}

function zoneOffset(seconds: number): number {
  return new Date(seconds * 1_000).getTimezoneOffset() * MINUTE;
}

interface LineInput {
  at: readonly number[];
  values: readonly (number | null)[];
  x: Scale;
  y: Scale;
}

/** All bars of a layer as one path. */
export function barsPath(input: LineInput & { below: readonly Layer[]; period: number }): string {
  const { at, values, below, period, x, y } = input;
  return at
    .map((time, nth) => {
      const value = values[nth] ?? 0;
      if (value <= 0) return "";
      const base = below.reduce((sum, layer) => sum + (layer.values[nth] ?? 0), 0);
      const gap = (period * (1 - BAR)) / 2;
      return `M${x(time + gap)} ${y(base)}V${y(base + value)}H${x(time + period - gap)}V${y(base)}Z`;
    })
    .join("");
}

/** A line that is interrupted where values are missing, and the area below it. */
export function linePaths({ at, values, x, y }: LineInput): { stroke: string; area: string } {
  let [stroke, area] = ["", ""];
  let piece: number[] = [];
  for (let nth = 0; nth <= at.length; nth++) {
    if (values[nth] != null) piece.push(nth);
    else if (piece.length > 0) {
      const points = piece.map((each) => `${x(at[each] ?? 0)} ${y(values[each] ?? 0)}`).join("L");
      // A single value is a dot, by its round ends.
      stroke += `M${points}${piece.length === 1 ? "h.01" : ""}`;
      area += `M${points}V${y(0)}H${x(at[piece[0] ?? 0] ?? 0)}Z`;
      piece = [];
    }
  }
  return { stroke, area };
}
