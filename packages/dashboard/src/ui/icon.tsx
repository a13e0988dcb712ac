// The icons, on a grid of 16. They take their colour from the text around them.
import type { JSX } from "preact";

const SHAPES = {
  pending: () => <circle cx="8" cy="8" r="5.5" stroke-dasharray="2.4 2.2" fill="none" />,
  claimed: () => (
    <>
      <circle cx="8" cy="8" r="5.5" />
      <path d="M8 4.6a3.4 3.4 0 0 1 0 6.8z" fill="currentColor" stroke="none" />
    </>
  ),
  running: () => (
    <>
      <circle cx="8" cy="8" r="5.75" />
      <path d="M6.7 5.7v4.6L10.4 8z" fill="currentColor" stroke="currentColor" stroke-width="1" />
    </>
  ),
  completed: () => (
    <>
      <circle cx="8" cy="8" r="6.5" fill="currentColor" stroke="none" />
      <path class="cutout" d="m5.3 8.2 1.9 1.9 3.6-4" />
    </>
  ),
  failed: () => (
    <>
      <path d="M13.2 6.3A5.5 5.5 0 1 0 13.4 9" />
      <path d="M13.6 2.9v3.5h-3.5" />
    </>
  ),
  dead: () => (
    <>
      <path d="M5.4 1.8h5.2l3.6 3.6v5.2l-3.6 3.6H5.4l-3.6-3.6V5.4z" fill="currentColor" stroke="none" />
      <path class="cutout" d="m5.9 5.9 4.2 4.2m0-4.2-4.2 4.2" />
    </>
  ),
  cancelled: () => (
    <>
      <circle cx="8" cy="8" r="5.5" />
      <path d="m4.2 11.8 7.6-7.6" />
    </>
  ),
  overview: () => <path d="M2 8h2.8l2-5 2.8 10 2-5H14" />,
  jobs: () => <path d="M2.5 4h11M2.5 8h11M2.5 12h7" />,
  failures: () => (
    <>
      <path d="M8 2.2 14.3 13H1.7z" />
      <path d="M8 6.4v3M8 11.2v.01" />
    </>
  ),
  approvals: () => (
    <>
      <path d="M3 8.5V5a2 2 0 0 1 2-2h6a2 2 0 0 1 2 2v6a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2z" />
      <path d="m5.8 8 1.6 1.6L10.4 6.4" />
    </>
  ),
  schedules: () => (
    <>
      <circle cx="8" cy="8" r="5.75" />
      <path d="M8 4.8V8l2.2 1.6" />
    </>
  ),
  queues: () => (
    <>
      <rect x="2" y="2.5" width="12" height="3" rx="1" />
      <rect x="2" y="6.8" width="12" height="3" rx="1" />
      <path d="M3 13.2h10" />
    </>
  ),
  limits: () => (
    <>
      <path d="M2.6 11.5a6 6 0 1 1 10.8 0" />
      <path d="m8 9.5 2.6-3.2" />
    </>
  ),
  workers: () => (
    <>
      <rect x="2.5" y="2.5" width="4.5" height="4.5" rx="1" />
      <rect x="9" y="2.5" width="4.5" height="4.5" rx="1" />
      <rect x="2.5" y="9" width="4.5" height="4.5" rx="1" />
      <rect x="9" y="9" width="4.5" height="4.5" rx="1" />
    </>
  ),
  audit: () => (
    <>
      <path d="M4 1.8h5.5L13 5.3v8a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1V2.8a1 1 0 0 1 1-1z" />
      <path d="M5.5 8h5M5.5 11h3" />
    </>
  ),
  tokens: () => (
    <>
      <circle cx="5" cy="11" r="3" />
      <path d="m7.2 8.8 6-6M11 5l2 2" />
    </>
  ),
  search: () => (
    <>
      <circle cx="7" cy="7" r="4.5" />
      <path d="m10.5 10.5 3.2 3.2" />
    </>
  ),
  plus: () => <path d="M8 3v10M3 8h10" />,
  pause: () => <path d="M5.5 3.5v9M10.5 3.5v9" />,
  play: () => <path d="M5 3.2v9.6L12.5 8z" />,
  x: () => <path d="m4 4 8 8m0-8-8 8" />,
  check: () => <path d="m3.2 8.4 3.2 3.2 6.4-7" />,
  minus: () => <path d="M3.5 8h9" />,
  chev: () => <path d="m6 3.5 4.5 4.5L6 12.5" />,
  down: () => <path d="m3.5 6 4.5 4.5L12.5 6" />,
  up: () => <path d="M8 13V3M3.8 7.2 8 3l4.2 4.2" />,
  retry: () => (
    <>
      <path d="M13.2 6.3A5.5 5.5 0 1 0 13.4 9" />
      <path d="M13.6 2.9v3.5h-3.5" />
    </>
  ),
  edit: () => <path d="M10.6 2.6 13.4 5.4 5.4 13.4l-3.2.4.4-3.2z" />,
  trash: () => <path d="M2.8 4.3h10.4M6 4.3V2.8h4v1.5M4.2 4.3l.6 9h6.4l.6-9" />,
  more: () => <path d="M3.5 8v.01M8 8v.01M12.5 8v.01" stroke-width="2.2" />,
  copy: () => (
    <>
      <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
      <path d="M10.5 5.5v-2a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h2" />
    </>
  ),
  clock: () => (
    <>
      <circle cx="8" cy="8" r="5.75" />
      <path d="M8 4.8V8l2.2 1.6" />
    </>
  ),
  user: () => (
    <>
      <circle cx="8" cy="5.4" r="2.9" />
      <path d="M2.6 14a5.5 5.5 0 0 1 10.8 0" />
    </>
  ),
  store: () => (
    <>
      <ellipse cx="8" cy="3.8" rx="5.2" ry="2" />
      <path d="M2.8 3.8v8.4c0 1.1 2.3 2 5.2 2s5.2-.9 5.2-2V3.8M2.8 8c0 1.1 2.3 2 5.2 2s5.2-.9 5.2-2" />
    </>
  ),
  theme: () => (
    <>
      <circle cx="8" cy="8" r="5.75" />
      <path d="M8 2.3a5.7 5.7 0 0 1 0 11.4z" fill="currentColor" />
    </>
  ),
  help: () => (
    <>
      <circle cx="8" cy="8" r="5.75" />
      <path d="M6.3 6.3a1.8 1.8 0 1 1 2.5 1.7c-.5.2-.8.6-.8 1.1M8 11.2v.01" />
    </>
  ),
  info: () => (
    <>
      <circle cx="8" cy="8" r="5.75" />
      <path d="M8 7.4v3.4M8 5.2v.01" />
    </>
  ),
  alert: () => (
    <>
      <path d="M8 2.2 14.3 13H1.7z" />
      <path d="M8 6.4v3M8 11.2v.01" />
    </>
  ),
  offline: () => (
    <path d="M2 2l12 12M5.2 9.4a4 4 0 0 1 5.6 0M2.6 6.6A8 8 0 0 1 5 5M8.3 3.9a8 8 0 0 1 5.1 2.7M8 12.4v.01" />
  ),
  lock: () => (
    <>
      <rect x="3" y="7" width="10" height="6.5" rx="1.5" />
      <path d="M5.2 7V5a2.8 2.8 0 0 1 5.6 0v2" />
    </>
  ),
  export: () => <path d="M8 10V2.5M5 5.3l3-2.8 3 2.8M3 10v3.2h10V10" />,
  step: () => <rect x="3" y="3" width="10" height="10" rx="2.5" />,
  moon: () => <path d="M13 9.6A5.6 5.6 0 0 1 6.4 3 5.6 5.6 0 1 0 13 9.6z" />,
  child: () => <path d="M4 2.5v6a2 2 0 0 0 2 2h6.5M10 7.8l2.8 2.7L10 13.2" />,
  event: () => <path d="M8.8 1.8 3.5 9H8l-.8 5.2L12.5 7H8z" />,
  priority: () => <path d="M3 12.5v-3M8 12.5v-6M13 12.5v-9" />,
  sort: () => <path d="M8 3v10M4.5 9.5 8 13l3.5-3.5" />,
  enter: () => <path d="M13 3.5v3a2 2 0 0 1-2 2H3.5M6 5.8 3.2 8.5 6 11.2" />,
  bookmark: () => <path d="M4 2.5h8v11l-4-3-4 3z" />,
  columns: () => (
    <>
      <rect x="2.5" y="3" width="11" height="10" rx="1.5" />
      <path d="M6.2 3v10M9.8 3v10" />
    </>
  ),
  link: () => (
    <path d="M6.5 9.5a2.8 2.8 0 0 0 4 0l2-2a2.8 2.8 0 0 0-4-4l-.8.8M9.5 6.5a2.8 2.8 0 0 0-4 0l-2 2a2.8 2.8 0 0 0 4 4l.8-.8" />
  ),
  stop: () => <rect x="4" y="4" width="8" height="8" rx="1.5" />,
  group: () => (
    <>
      <circle cx="4" cy="4.2" r="1.8" />
      <circle cx="12" cy="4.2" r="1.8" />
      <circle cx="8" cy="11.8" r="1.8" />
      <path d="m5 5.8 2.2 4.4M11 5.8 8.8 10.2" />
    </>
  ),
} satisfies Record<string, () => JSX.Element>;

export type IconName = keyof typeof SHAPES;

export function Icon({ name, class: extra = "" }: { name: IconName; class?: string }): JSX.Element {
  return (
    <svg class={`i ${extra}`} viewBox="0 0 16 16" aria-hidden="true">
      {SHAPES[name]()}
    </svg>
  );
}
