import type { JSX } from "preact";

interface MeterProps {
  max: number;
  parts: readonly { state: string; value: number }[];
  label: string;
}

/** A bar that is filled in part. */
export function Meter({ max, parts, label }: MeterProps): JSX.Element {
  let from = 0;
  return (
    <svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={label}>
      {parts.map(({ state, value }) => {
        const width = max > 0 ? Math.min(100 - from, Math.round((value / max) * 1_000) / 10) : 0;
        const x = from;
        from += width;
        return width > 0 && <rect key={state} class={`s-${state}`} x={x} y="0" width={width} height="6" />;
      })}
    </svg>
  );
}
