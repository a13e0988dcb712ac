import type { Hint, Store } from "../../store.js";
import { until } from "./until.js";

const HEARD_WITHIN_MS = 5_000;

/** What a listener heard. A hint may come late, but soon enough to be of use. */
export interface Heard {
  all: readonly Hint[];
  heard(kind: Hint["kind"], doing?: () => Promise<unknown>): Promise<unknown>;
  heardToStop(ids: readonly string[], doing?: () => Promise<unknown>): Promise<unknown>;
  forget(): void;
  stop(): void;
}

/** Listens, from now on. */
export function hintsOf(store: Store): Heard {
  const all: Hint[] = [];
  const stop = store.listen((hint) => all.push(hint));
  return {
    all,
    heard: (kind, doing) => hasListeners(`"${kind}"`, () => all.some((hint) => hint.kind === kind), doing),
    heardToStop: (ids, doing) =>
      hasListeners(
        `to stop ${ids.join(", ")}`,
        () => {
          const named = all.flatMap((hint) => (hint.kind === "cancel" ? hint.ids : []));
          return ids.every((id) => named.includes(id));
        },
        doing,
      ),
    forget: () => void all.splice(0),
    stop,
  };
}

function hasListeners(what: string, heard: () => boolean, doing?: () => Promise<unknown>): Promise<unknown> {
  return until(
    `the hint ${what}`,
    async () => {
      if (heard()) return true;
      await doing?.();
      return false;
    },
    HEARD_WITHIN_MS,
  );
}
