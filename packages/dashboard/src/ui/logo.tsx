import type { JSX } from "preact";

export function Logo(): JSX.Element {
  return (
    <svg
      viewBox="0 0 20 20"
      fill="none"
      stroke="currentColor"
      stroke-width="2.2"
      stroke-linecap="round"
      aria-hidden="true"
    >
      <path d="M4.5 2.5v15M15.5 2.5v15" />
      <path d="M4.5 8.2c3.2 0 3.2 3.6 5.5 3.6s2.3-3.6 5.5-3.6" />
    </svg>
  );
}
