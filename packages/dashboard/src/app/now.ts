import { signal, type ReadonlySignal } from "./signals.js";

/** The time that relative times refer to. It advances once a second while the page is visible. */
const time = signal(Date.now());
export const now: ReadonlySignal<number> = time;

setInterval(() => {
  if (!document.hidden) time.value = Date.now();
}, 1_000);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) time.value = Date.now();
});
