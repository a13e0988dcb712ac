import type { Hint, Store } from "../../store.js";
import { until } from "./until.js";

const DEADLINE_MS = 5_000;

/** Records the hints of a listener. A hint may arrive late, but within a few seconds. */
export interface RecordedHints {
  all: readonly Hint[];
  /** Waits for a hint of this kind; repeats `change` until it arrives. */
  hint(kind: Hint["kind"], change?: () => Promise<unknown>): Promise<unknown>;
  cancels(ids: readonly string[], change?: () => Promise<unknown>): Promise<unknown>;
  forget(): void;
  stop(): void;
}

/** Starts listening. */
export function hintsOf(store: Store): RecordedHints {
  const all: Hint[] = [];
  const stop = store.listen((hint) => all.push(hint));
  return {
    all,
    hint: (kind, change) => waitForHint(`"${kind}"`, () => all.some((hint) => hint.kind === kind), change),
    cancels: (ids, change) =>
      waitForHint(
        `to cancel ${ids.join(", ")}`,
        () => {
          const named = all.flatMap((hint) => (hint.kind === "cancel" ? hint.ids : []));
          return ids.every((id) => named.includes(id));
        },
        change,
      ),
    forget: () => void all.splice(0),
    stop,
  };
}

function waitForHint(what: string, arrived: () => boolean, change?: () => Promise<unknown>): Promise<unknown> {
  return until(
    `the hint ${what}`,
    async () => {
      if (arrived()) return true;
      await change?.();
      return false;
    },
    DEADLINE_MS,
  );
}
