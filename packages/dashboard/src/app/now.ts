import { signal, type ReadonlySignal } from "./signals.js";

/** How far the server's clock is ahead of that of the browser, which may be wrong. */
let aheadMs = 0;

/** The time of the server's clock: what comes from the server is compared with it. */
export function serverNow(): number {
  return Date.now() + aheadMs;
}

/** The time that relative times refer to. It advances once a second while the page is visible. */
const time = signal(serverNow());
export const now: ReadonlySignal<number> = time;

/** `at`: the time of the server's clock in a response that comes now, to a request of `sentAt`. */
export function setServerTime(at: number, sentAt: number): void {
  // It was that time between both. A difference that is possible stays, so that times do not jump.
  const next = Math.max(at - Date.now(), Math.min(at - sentAt, aheadMs));
  if (at === 0 || next === aheadMs) return;
  aheadMs = next;
  time.value = serverNow();
}

export function startNow(): void {
  const advance = (): void => {
    if (!document.hidden) time.value = serverNow();
  };
  setInterval(advance, 1_000);
  document.addEventListener("visibilitychange", advance);
}
