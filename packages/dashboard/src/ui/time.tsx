import { signal } from "../app/signals.js";
import type { JSX } from "preact";
import { clock, exact, relative } from "../app/format.js";
import { now } from "../app/now.js";

/** A click on any time shows all of them exactly. */
const isExact = signal(false);

/** A relative time; the exact one on hover and focus, and for all times after a click. */
export function Time({ at, class: extra = "" }: { at: string | number; class?: string }): JSX.Element {
  const ms = typeof at === "number" ? at : Date.parse(at);
  const full = exact(ms);
  const toggle = (event: Event): void => {
    event.preventDefault();
    event.stopPropagation();
    isExact.value = !isExact.value;
  };
  return (
    <time class={`when ${extra}`} dateTime={new Date(ms).toISOString()} title={full} onClick={toggle}>
      {isExact.value ? full : relative(ms, now.value)}
    </time>
  );
}

/** The time of day; the exact time on hover. */
export function Clock({ at }: { at: string }): JSX.Element {
  const ms = Date.parse(at);
  return (
    <time dateTime={at} title={exact(ms)}>
      {clock(ms)}
    </time>
  );
}
