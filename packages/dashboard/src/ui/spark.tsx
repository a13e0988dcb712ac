import type { JSX } from "preact";

interface SparkProps {
  values: readonly number[];
  /** The state whose colour it has. */
  state?: string;
  kind?: "line" | "bars";
  /** Read by screen readers. Without it, the numbers beside it must say the same. */
  label?: string;
  /** The value at the top; by default the largest one. */
  max?: number;
}

const WIDTH = 160;
const HEIGHT = 26;
const MAX_POINTS = 60;

/** A small chart without axes. More than 60 values are merged. */
export function Spark({ values, state = "pending", kind = "line", label, max }: SparkProps): JSX.Element {
  const points = merge(values, kind === "bars" ? sum : Math.max);
  const top = Math.max(max ?? Math.max(0, ...points), 1e-9);
  const y = (value: number): number => round(HEIGHT - 1.5 - (Math.min(value, top) / top) * (HEIGHT - 4));
  const step = WIDTH / Math.max(1, kind === "bars" ? points.length : points.length - 1);
  const line = points.map((value, at) => `${at === 0 ? "M" : "L"}${round(at * step)} ${y(value)}`).join("");
  return (
    <svg
      class={`spark s-${state}`}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role={label === undefined ? undefined : "img"}
      aria-label={label}
      aria-hidden={label === undefined ? "true" : undefined}
    >
      {kind === "bars" ? (
        <>
          <line class="base" x1="0" x2={WIDTH} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} />
          {points.map(
            (value, at) =>
              value > 0 && (
                <rect
                  key={at}
                  x={round(at * step)}
                  width={round(Math.max(1, step - 1))}
                  y={y(value)}
                  height={round(HEIGHT - y(value))}
                />
              ),
          )}
        </>
      ) : (
        points.length > 1 && (
          <>
            <path class="area" d={`${line}L${WIDTH} ${HEIGHT}L0 ${HEIGHT}Z`} />
            <path d={line} />
          </>
        )
      )}
    </svg>
  );
}

function merge(values: readonly number[], combine: (...values: number[]) => number): number[] {
  const size = Math.ceil(values.length / MAX_POINTS);
  if (size <= 1) return [...values];
  const merged: number[] = [];
  for (let at = 0; at < values.length; at += size) merged.push(combine(...values.slice(at, at + size)));
  return merged;
}

function sum(...values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
