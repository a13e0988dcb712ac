import { effect, signal, untracked, type ReadonlySignal } from "./signals.js";
import { useEffect, useMemo } from "preact/hooks";
import { api, clientWithin, connection, hasExpired, session, type RouteClient } from "./api.js";
import { isLive } from "./live.js";

/** Data from the server. What was loaded is kept while it is loaded again, and when that fails. */
export interface Resource<T> {
  /** Undefined: not loaded yet. */
  readonly data: ReadonlySignal<T | undefined>;
  readonly error: ReadonlySignal<unknown>;
  readonly loading: ReadonlySignal<boolean>;
  /** Loads it now. */
  reload(): Promise<void>;
}

interface Options {
  /** Loads it again after so many milliseconds, while the page is visible and live. */
  every?: number;
}

/** What views loaded before, so that a view that is opened again is filled at once. */
const kept = new Map<string, unknown>();
const MAX_KEPT = 60;

/** What is loaded every 15 s may be 5 s old. */
const AGE = 1 / 3;

/**
 * Loads data for a view. `key` names it: with another key, it is loaded anew, and what a former visit loaded is shown meanwhile. A
 * `load` that uses the client that it is given shares what it loads again with other open pages.
 */
export function useResource<T>(
  key: string,
  load: (client: RouteClient) => Promise<T>,
  { every }: Options = {},
): Resource<T> {
  const resource = useMemo(() => newResource(key, load), [key]);
  resource.load = load;
  useEffect(() => {
    void resource.reload();
    if (every === undefined) return () => resource.stop();
    let timer: ReturnType<typeof setInterval> | undefined;
    const off = effect(() => {
      clearInterval(timer);
      if (!isLive.value) return;
      const client = clientWithin(Math.round((every * AGE) / 1_000));
      timer = setInterval(() => void resource.loadWith(client), every);
    });
    return () => {
      off();
      clearInterval(timer);
      resource.stop();
    };
  }, [resource, every]);
  useEffect(
    () =>
      // Loads again what failed while the server did not respond, or after a new session.
      effect(() => {
        const isBack = connection.value.online && typeof session.value === "object" && !hasExpired.value;
        if (isBack && untracked(() => resource.error.value) !== undefined) void resource.reload();
      }),
    [resource],
  );
  return resource;
}

interface OwnResource<T> extends Resource<T> {
  load: (client: RouteClient) => Promise<T>;
  loadWith(client: RouteClient): Promise<void>;
  stop(): void;
}

function newResource<T>(key: string, first: OwnResource<T>["load"]): OwnResource<T> {
  const data = signal<T | undefined>(kept.get(key) as T | undefined);
  const error = signal<unknown>(undefined);
  const loading = signal(false);
  let newest = 0;
  const resource = {
    data,
    error,
    loading,
    load: first,
    reload: () => resource.loadWith(api),
    async loadWith(client: RouteClient): Promise<void> {
      const number = ++newest;
      loading.value = true;
      try {
        const loaded = await resource.load(client);
        // A later call was started meanwhile.
        if (number !== newest) return;
        keep(key, loaded);
        data.value = loaded;
        error.value = undefined;
      } catch (thrown) {
        if (number === newest) error.value = thrown;
      } finally {
        if (number === newest) loading.value = false;
      }
    },
    stop(): void {
      newest++;
    },
  };
  return resource;
}

function keep(key: string, value: unknown): void {
  kept.delete(key);
  kept.set(key, value);
  for (const oldest of kept.keys()) {
    if (kept.size <= MAX_KEPT) break;
    kept.delete(oldest);
  }
}
