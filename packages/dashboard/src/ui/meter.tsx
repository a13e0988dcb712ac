import type { JSX } from "preact";

/** How much of something is used. The numbers stand beside it. */
export function Meter({ value, max, state = "running" }: { value: number; max: number; state?: string }): JSX.Element {
  const share = max > 0 ? Math.min(1, value / max) : 0;
  return (
    <svg class={`meter s-${state}`} viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
      <rect width={Math.round(share * 1_000) / 10} height="6" />
    </svg>
  );
}
