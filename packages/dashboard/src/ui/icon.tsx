// The icons, on a grid of 16. They take their colour from the text around them.
import type { JSX, SVGAttributes } from "preact";

const RING = "M13.75 8a5.75 5.75 0 1 1-11.5 0 5.75 5.75 0 1 1 11.5 0z";
const CLOCK = `${RING}M8 4.8V8l2.2 1.6`;
const AGAIN = "M13.2 6.3A5.5 5.5 0 1 0 13.4 9M13.6 2.9v3.5h-3.5";
const WARNING = "M8 2.2 14.3 13H1.7zM8 6.4v3M8 11.2v.01";

/** Paths, separated by "|". Those that begin with a capital of `KINDS` are not plain lines. */
const SHAPES = {
  pending: `D${RING}`,
  claimed: `${RING}|FM8 4.6a3.4 3.4 0 0 1 0 6.8z`,
  running: `${RING}|FM6.3 4.9 11.2 8l-4.9 3.1z`,
  completed: "FM14.5 8a6.5 6.5 0 1 1-13 0 6.5 6.5 0 1 1 13 0z|Cm5.3 8.2 1.9 1.9 3.6-4",
  failed: AGAIN,
  dead: "FM5.4 1.8h5.2l3.6 3.6v5.2l-3.6 3.6H5.4l-3.6-3.6V5.4z|Cm5.9 5.9 4.2 4.2m0-4.2-4.2 4.2",
  cancelled: `${RING}M4 12l8-8`,
  overview: "M2 8h2.8l2-5 2.8 10 2-5H14",
  jobs: "M2.5 4h11M2.5 8h11M2.5 12h7",
  failures: WARNING,
  schedules: CLOCK,
  queues: "M2 2.5h12v3H2zM2 6.8h12v3H2zM3 13.2h10",
  workers: "M2.5 2.5H7V7H2.5zM9 2.5h4.5V7H9zM2.5 9H7v4.5H2.5zM9 9h4.5v4.5H9z",
  audit: "M4 1.8h5.5L13 5.3v8a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1V2.8a1 1 0 0 1 1-1zM5.5 8h5M5.5 11h3",
  tokens: "M8 11a3 3 0 1 1-6 0 3 3 0 1 1 6 0zM7.2 8.8l6-6M11 5l2 2",
  search: "M11.5 7a4.5 4.5 0 1 1-9 0 4.5 4.5 0 1 1 9 0zM10.5 10.5l3.2 3.2",
  plus: "M8 3v10M3 8h10",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.2v9.6L12.5 8z",
  x: "m4 4 8 8m0-8-8 8",
  check: "m3.2 8.4 3.2 3.2 6.4-7",
  chev: "m6 3.5 4.5 4.5L6 12.5",
  down: "m3.5 6 4.5 4.5L12.5 6",
  up: "M8 13V3M3.8 7.2 8 3l4.2 4.2",
  retry: AGAIN,
  edit: "M10.6 2.6 13.4 5.4 5.4 13.4l-3.2.4.4-3.2z",
  trash: "M2.8 4.3h10.4M6 4.3V2.8h4v1.5M4.2 4.3l.6 9h6.4l.6-9",
  more: "WM3.5 8v.01M8 8v.01M12.5 8v.01",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-2a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h2",
  clock: CLOCK,
  user: "M10.9 5.4a2.9 2.9 0 1 1-5.8 0 2.9 2.9 0 1 1 5.8 0zM2.6 14a5.5 5.5 0 0 1 10.8 0",
  store:
    "M13.2 3.8c0 1.1-2.3 2-5.2 2s-5.2-.9-5.2-2 2.3-2 5.2-2 5.2.9 5.2 2v8.4c0 1.1-2.3 2-5.2 2s-5.2-.9-5.2-2V3.8M2.8 8c0 1.1 2.3 2 5.2 2s5.2-.9 5.2-2",
  theme: `${RING}|FM8 2.3a5.7 5.7 0 0 1 0 11.4z`,
  info: `${RING}M8 7.4v3.4M8 5.2v.01`,
  alert: WARNING,
  offline: "M2 2l12 12M5.2 9.4a4 4 0 0 1 5.6 0M2.6 6.6A8 8 0 0 1 5 5M8.3 3.9a8 8 0 0 1 5.1 2.7M8 12.4v.01",
  lock: "M3 7h10v6.5H3zM5.2 7V5a2.8 2.8 0 0 1 5.6 0v2",
  export: "M8 10V2.5M5 5.3l3-2.8 3 2.8M3 10v3.2h10V10",
  child: "M4 2.5v6a2 2 0 0 0 2 2h6.5M10 7.8l2.8 2.7L10 13.2",
  event: "M8.8 1.8 3.5 9H8l-.8 5.2L12.5 7H8z",
  priority: "M3 12.5v-3M8 12.5v-6M13 12.5v-9",
  sort: "M8 3v10M4.5 9.5 8 13l3.5-3.5",
  enter: "M13 3.5v3a2 2 0 0 1-2 2H3.5M6 5.8 3.2 8.5 6 11.2",
  bookmark: "M4 2.5h8v11l-4-3-4 3z",
  link: "M6.5 9.5a2.8 2.8 0 0 0 4 0l2-2a2.8 2.8 0 0 0-4-4l-.8.8M9.5 6.5a2.8 2.8 0 0 0-4 0l-2 2a2.8 2.8 0 0 0 4 4l.8-.8",
  stop: "M4 4h8v8H4z",
  group:
    "M5.8 4.2a1.8 1.8 0 1 1-3.6 0 1.8 1.8 0 1 1 3.6 0zM13.8 4.2a1.8 1.8 0 1 1-3.6 0 1.8 1.8 0 1 1 3.6 0zM9.8 11.8a1.8 1.8 0 1 1-3.6 0 1.8 1.8 0 1 1 3.6 0zM5 5.8l2.2 4.4M11 5.8 8.8 10.2",
};

const KINDS: Readonly<Record<string, SVGAttributes<SVGPathElement>>> = {
  D: { "stroke-dasharray": "2.4 2.2" },
  F: { fill: "currentColor", stroke: "none" },
  C: { class: "cutout" },
  W: { "stroke-width": 2.2 },
};

export type IconName = keyof typeof SHAPES;

export function Icon({ name, class: extra = "" }: { name: IconName; class?: string }): JSX.Element {
  return (
    <svg class={`i ${extra}`} viewBox="0 0 16 16" aria-hidden="true">
      {SHAPES[name].split("|").map((path) => {
        const kind = KINDS[path.charAt(0)];
        return <path key={path} {...kind} d={kind === undefined ? path : path.slice(1)} />;
      })}
    </svg>
  );
}
