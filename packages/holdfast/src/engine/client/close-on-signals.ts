import type { EngineContext } from "../context.js";

// Signals within this time count as one: Ctrl-C can arrive twice, from the terminal and from a runner such as tsx that
// forwards its own signals.
const SAME_SIGNAL_MS = 1_000;

/**
 * Closes the client on SIGTERM or SIGINT. A second signal, more than a second later, ends the process immediately. Returns a
 * function that removes the signal handlers.
 */
export function closeOnSignals({ clock, logger }: EngineContext, close: () => Promise<void>): () => void {
  let closing = false;
  const onSignal = (): void => {
    if (closing) return;
    closing = true;
    clock.after(SAME_SIGNAL_MS, removeHandlers, { background: true });
    close().catch((error: unknown) => logger.error({ error }, "closing on a signal failed"));
  };
  const removeHandlers = (): void => {
    process.off("SIGTERM", onSignal);
    process.off("SIGINT", onSignal);
  };
  process.on("SIGTERM", onSignal);
  process.on("SIGINT", onSignal);
  // While the client closes because of a signal, the handlers stay until the timer removes them.
  return () => {
    if (!closing) removeHandlers();
  };
}
