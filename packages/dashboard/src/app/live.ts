import { computed, effect, signal, type ReadonlySignal } from "./signals.js";
import type { JobSummary, StatsResult } from "holdfast/admin";
import { api, checkSession, connection, hasExpired, may, session } from "./api.js";
import { PREFIX } from "./router.js";

/** Paused by the viewer: nothing on the page changes by itself. */
export const isPaused = signal(false);
const isVisible = signal(!document.hidden);
/** Whether views load again by themselves. */
export const isLive: ReadonlySignal<boolean> = computed(
  () => isVisible.value && !isPaused.value && typeof session.value === "object" && !hasExpired.value,
);

/** Counts by state, queue and type, from the event stream. */
export const stats = signal<StatsResult | null>(null);
/** How the stream is: `open`, or why it is not. */
export const stream = signal<"closed" | "opening" | "open">("closed");

type Listener = (jobs: readonly JobSummary[]) => void;
const listeners = new Set<Listener>();

/** Calls back with the jobs that changed, in any process, at most once per frame. */
export function onJobs(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

const missedListeners = new Set<() => void>();

/** Calls back when changes may have been missed: what is shown must be read again. */
export function onMissed(listener: () => void): () => void {
  missedListeners.add(listener);
  return () => void missedListeners.delete(listener);
}

/**
 * Loads something again when changes may have been missed, and some time after jobs have changed that `isWanted`, at most once in that time.
 */
export function follow(
  isWanted: (job: JobSummary) => boolean,
  shown: { reload: () => Promise<void> },
  delayMs: number,
): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const off = onJobs((jobs) => {
    // All of them: it may also take note of each.
    if (jobs.filter(isWanted).length === 0) return;
    timer ??= setTimeout(() => {
      timer = undefined;
      void shown.reload();
    }, delayMs);
  });
  const offMissed = onMissed(() => void shown.reload());
  return () => {
    off();
    offMissed();
    clearTimeout(timer);
  };
}

/** What the tab with the stream passes on to the others. */
type Message = { stats: StatsResult } | { job: JobSummary } | { missed: true };

/** The URL of this version: another one may send other messages. */
const CHANNEL = `holdfast ${import.meta.url}`;
// After a response with an error status. Doubled each time, up to the second one.
const [REOPEN_MS, MAX_REOPEN_MS] = [2_000, 30_000];

/** Any page of this host may send anything. */
function isMessage(data: unknown): data is Message {
  const { stats: counts, job, missed: hasMissed } = Object(data) as Record<string, Record<string, unknown> | undefined>;
  return Array.isArray(counts?.["counts"]) || Array.isArray(job?.["tags"]) || hasMissed !== undefined;
}
let changed = new Map<string, JobSummary>();
let newestStats: StatsResult | null = null;
let isFrameWanted = false;

/** Signals are written once per frame, however many events there are. */
function receive(message: Message): void {
  if ("missed" in message) {
    for (const listener of missedListeners) listener();
    return;
  }
  if ("stats" in message) newestStats = message.stats;
  else changed.set(message.job.id, message.job);
  if (isFrameWanted) return;
  isFrameWanted = true;
  requestAnimationFrame(() => {
    isFrameWanted = false;
    if (newestStats !== null) stats.value = newestStats;
    newestStats = null;
    if (changed.size === 0) return;
    const jobs = [...changed.values()];
    changed = new Map();
    for (const listener of listeners) listener(jobs);
  });
}

/**
 * One event stream per browser: browsers allow six connections to a server over HTTP/1.1. The tab that holds a lock has the stream,
 * and passes events on. Hidden tabs have none and want none.
 */
export function startLive(): void {
  document.addEventListener("visibilitychange", () => (isVisible.value = !document.hidden));
  const channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel(CHANNEL);
  channel?.addEventListener("message", ({ data }) => {
    // Another tab may have another role: the cookie has changed, and this one will notice soon.
    if (!isLive.peek() || !may("viewer") || !isMessage(data)) return;
    stream.value = "open";
    receive(data);
  });
  effect(() => {
    if (!isLive.value || !may("viewer")) {
      stream.value = "closed";
      return;
    }
    const ended = new AbortController();
    stream.value = "opening";
    void withLock(ended.signal, () =>
      readStream(ended.signal, (message) => {
        receive(message);
        channel?.postMessage(message);
      }),
    );
    return () => ended.abort();
  });
}

/** Waits for the lock of this browser, and keeps it until the work ends. */
async function withLock(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
  const { locks } = navigator as { locks?: LockManager };
  // Only over HTTPS and on localhost.
  if (locks === undefined) return work();
  try {
    await locks.request(CHANNEL, { signal }, work);
  } catch {
    // The tab was hidden before it got the lock.
  }
}

function readStream(signal: AbortSignal, onMessage: (message: Message) => void): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const parse = (event: Event): unknown => JSON.parse((event as MessageEvent<string>).data);
    let refusals = 0;
    let retry: ReturnType<typeof setTimeout> | undefined;
    let source = open();
    signal.addEventListener("abort", () => {
      clearTimeout(retry);
      source.close();
      resolve();
    });

    function open(): EventSource {
      const opened = new EventSource(`${PREFIX}/api/admin/events`);
      opened.addEventListener("open", () => {
        refusals = 0;
        stream.value = "open";
        // Nothing was sent of what happened before.
        onMessage({ missed: true });
      });
      opened.addEventListener("missed", () => onMessage({ missed: true }));
      opened.addEventListener("error", () => {
        // A stream that was open has ended: the browser opens it again. If that fails, another call shows why.
        if (stream.peek() !== "open" && connection.peek().online) void api.session.get().catch(() => {});
        stream.value = "opening";
        // It reconnects by itself, but not after a response with an error status: of a proxy, or because the session has ended.
        if (opened.readyState !== EventSource.CLOSED) return;
        retry = setTimeout(() => (source = open()), Math.min(REOPEN_MS * 2 ** refusals++, MAX_REOPEN_MS));
        void checkSession();
      });
      opened.addEventListener("stats", (event) => onMessage({ stats: parse(event) as StatsResult }));
      opened.addEventListener("job", (event) => onMessage({ job: parse(event) as JobSummary }));
      return opened;
    }
  });
}
