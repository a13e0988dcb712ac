import { useSignal } from "../app/signals.js";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { barsPath, linePaths, newScale, niceTop, timeTicks, topOf, type Layer } from "./time-scale.js";

interface TimeChartProps {
  /** When each period begins, in seconds. */
  at: readonly number[];
  /** Bars stand on one another, the first layer at the bottom. */
  layers: readonly Layer[];
  /** The length of a period, in seconds. */
  period: number;
  /** What it shows, in a sentence. */
  label: string;
  /** Gives it its height. */
  class: string;
  /** Steps of the vertical axis. */
  steps: number;
  showValue: (value: number) => string;
  showTime: (seconds: number) => string;
  /** What is at an index, shown beside the crosshair. */
  tip: (index: number) => ComponentChildren;
}

const LEFT = 48;
const BOTTOM = 20;
const TOP = 8;
const TIP_WIDTH = 190;

/** A chart over time. Its colours are CSS, so that it follows the theme; the pointer or the arrow keys show what is at a time. */
export function TimeChart(props: TimeChartProps): JSX.Element {
  const { at, layers, period, label, steps, showValue, showTime, tip } = props;
  const place = useRef<HTMLDivElement>(null);
  const size = useSignal({ width: 0, height: 0 });
  const chosen = useSignal<number | null>(null);
  useEffect(() => {
    const resized = new ResizeObserver(([entry]) => {
      if (entry !== undefined) size.value = entry.contentRect;
    });
    if (place.current !== null) resized.observe(place.current);
    return () => resized.disconnect();
  }, []);

  const { width, height } = size.value;
  const hasBars = layers.some(({ kind }) => kind === "bars");
  const bottom = height - BOTTOM;
  const from = at[0] ?? 0;
  const last = at.at(-1) ?? from;
  const x = newScale(from, last + (hasBars ? period : 0), LEFT, width);
  const top = niceTop(topOf(layers), steps);
  const y = newScale(0, top, bottom, TOP);
  const middle = hasBars ? period / 2 : 0;
  const index = chosen.value === null ? null : Math.min(chosen.value, at.length - 1);
  const line = index === null || index < 0 ? null : x((at[index] ?? 0) + middle);

  const onPointerMove = (event: PointerEvent): void => {
    const left = event.clientX - (place.current?.getBoundingClientRect().left ?? 0);
    const nearest = at.reduce(
      (best, time, nth) =>
        Math.abs(x(time + middle) - left) < Math.abs(x((at[best] ?? 0) + middle) - left) ? nth : best,
      0,
    );
    chosen.value = left < LEFT || at.length === 0 ? null : nearest;
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const end = at.length - 1;
    const now = index ?? end + 1;
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: end, Escape: null }[event.key];
    if (to === undefined || end < 0) return;
    if (event.key !== "Escape") event.preventDefault();
    chosen.value = to === null ? null : Math.max(0, Math.min(end, to));
  };
  const leave = (): void => void (chosen.value = null);
  return (
    <div class={`time-chart ${props.class}`} onPointerMove={onPointerMove} onPointerLeave={leave}>
      <div ref={place} class="draw-on" role="img" aria-label={label} tabIndex={0} onKeyDown={onKeyDown} onBlur={leave}>
        {width > LEFT && (
          <svg viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
            {Array.from({ length: steps + 1 }, (_, nth) => (top * nth) / steps).map((value) => (
              <g key={value}>
                <path class="grid" d={`M${LEFT} ${Math.round(y(value)) + 0.5}H${width}`} />
                <text class="value" x={LEFT - 8} y={y(value) + 4}>
                  {showValue(value)}
                </text>
              </g>
            ))}
            {timeTicks(from, last, (width - LEFT) / 90).map((time) => (
              <text key={time} class="time" x={Math.min(x(time), width - 18)} y={height - 4}>
                {showTime(time)}
              </text>
            ))}
            {layers.map(({ state, kind, values }, nth) => {
              if (kind === "bars") {
                const below = layers.slice(0, nth);
                return <path key={nth} class={`s-${state} bars`} d={barsPath({ at, values, below, period, x, y })} />;
              }
              const { stroke, area } = linePaths({ at, values, x, y });
              return (
                <g key={nth} class={`s-${state} ${kind}`}>
                  {kind === "line" && <path class="area" d={area} />}
                  <path class="stroke" d={stroke} />
                </g>
              );
            })}
            {line !== null && <path class="crosshair" d={`M${line} ${TOP}V${bottom}`} />}
          </svg>
        )}
      </div>
      <div role="status">
        {line !== null && index !== null && (
          <div class="tip" style={{ left: `${line + TIP_WIDTH + 24 > width ? line - TIP_WIDTH - 12 : line + 12}px` }}>
            {tip(index)}
          </div>
        )}
      </div>
    </div>
  );
}
