import { computed, effect } from "../app/signals.js";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, connection, may, mayChangeOwn, messageOf } from "../app/api.js";
import { countText, number, plural } from "../app/format.js";
import { addShortcuts } from "../app/keys.js";
import { isLive, onJobs, onMissed, stats } from "../app/live.js";
import { serverNow } from "../app/now.js";
import { rememberList } from "../app/opened-from.js";
import { useResource } from "../app/resource.js";
import { route, setQuery } from "../app/router.js";
import { Button } from "../ui/button.js";
import { Icon } from "../ui/icon.js";
import { Empty } from "../ui/page-states.js";
import { BulkBar, SelectionLine } from "./jobs/bulk-bar.js";
import { sum, useCounts } from "./jobs/counts.js";
import { NoJobs, NoMatch } from "./jobs/empty.js";
import { FilterBar } from "./jobs/filter-bar.js";
import type { Sources } from "./jobs/filter-completion.js";
import { parseFilter, STATES, withState, type Filter, type Known } from "./jobs/filter.js";
import { JobList, type Order } from "./jobs/job-list.js";
import { obstaclesOf, type Obstacles } from "./jobs/job-text.js";
import { endedOperations } from "./jobs/operations.js";
import { OperationsPanel } from "./jobs/operations-panel.js";
import { Selection } from "./jobs/selection.js";
import { StateTabs } from "./jobs/state-tabs.js";
import { JobTable, TableSkeleton } from "./jobs/table.js";
import { ExportMenu, ViewsMenu } from "./jobs/toolbar.js";

const OBSTACLES_MS = 15_000;
/** Where there is no event stream: for the role user. */
const POLL_MS = 10_000;
/** More are loaded with the button only. */
const MAX_SCROLLED = 2_000;
/** A list that is opened again is kept for so long. */
const KEPT_MS = 60_000;

/** The names of types in the counts, which change rarely. */
const countedTypes = computed(() => Object.keys(stats.value?.types ?? {}).join("\n"));

export default function Jobs(): JSX.Element {
  const { query } = route.value;
  const q = query.get("q") ?? "";
  const order: Order = query.get("order") === "oldest" ? "oldest" : "newest";
  const isViewer = may("viewer");
  const names = useNames(isViewer);
  const read = (text: string): Filter => parseFilter(text, { ...names.known, now: serverNow() });
  const { list, next, reload } = useList(q, order, read);
  const selection = useMemo(() => (list !== undefined && mayChangeOwn() ? new Selection(list) : null), [list]);
  // Times such as the last hour are those of the load.
  const filter = useMemo(() => next?.filter ?? read(q), [next, q]);
  const counts = useCounts(filter.conditions, filter.isImpossible);
  const total = sum((filter.conditions.state ?? STATES).map((state) => counts[state]));
  useFreshness(list, isViewer, counts.reload);
  const rows = list?.rows.value;
  useEffect(() => {
    // For the page of a job: which one comes before it, and which after.
    if (rows !== undefined) rememberList(rows.map(({ id }) => id));
  }, [rows]);
  useLayoutEffect(() => addShortcuts([{ key: ".", about: "Show the new jobs", run: reload }]), [list]);

  const apply = (text: string): void => setQuery({ q: text.trim() });
  const isBare = Object.keys(filter.conditions).length === 0 && filter.tokens.length === 0;
  if (list !== undefined && isBare && list.cursor.value === null && list.rows.value.length === 0) {
    return list.freshCount.value > 0 ? <Reload run={reload} /> : <NoJobs workers={names.workers} />;
  }
  return (
    <>
      <div class="row jobs-bar">
        <FilterBar
          q={q}
          read={(text) => read(text).tokens}
          sources={() => sourcesOf(list, filter, names.types)}
          onApply={apply}
        />
        <ViewsMenu q={q} onApply={apply} />
        <ExportMenu list={list} />
      </div>
      <Problems filter={filter} />
      <div class="subbar">
        <StateTabs counts={counts} chosen={filter.conditions.state} onChoose={(state) => apply(withState(q, state))} />
        {list !== undefined && <NewChip list={list} onShow={reload} />}
      </div>
      {list === undefined ? (
        <section class="card">
          <TableSkeleton />
        </section>
      ) : (
        <Content
          list={list}
          selection={selection}
          obstacles={names.obstacles}
          total={total}
          onClear={() => apply("")}
        />
      )}
      {selection !== null && list !== undefined && <BulkBar list={list} selection={selection} total={total} />}
      <OperationsPanel />
    </>
  );
}

/** What the filter and the rows need to know: types, queues and workers. */
function useNames(isViewer: boolean): {
  known: Omit<Known, "now">;
  types: readonly string[];
  obstacles: Obstacles;
  workers: number | undefined;
} {
  const key = isViewer ? "" : " none";
  const every = isViewer ? { every: OBSTACLES_MS } : {};
  const types = useResource(`jobs.types${key}`, async () => (isViewer ? (await api.types.list()).types : []));
  const queues = useResource(`jobs.queues${key}`, async () => (isViewer ? api.queues.list() : undefined), every);
  const workers = useResource(
    `jobs.workers${key}`,
    async () => (isViewer ? (await api.workers.list()).workers : undefined),
    every,
  );
  const { value: counted } = countedTypes;
  const all = useMemo(
    () => [...new Set([...(types.data.value ?? []), ...counted.split("\n").filter((name) => name !== "")])],
    [types.data.value, counted],
  );
  const isTypesKnown = types.data.value !== undefined || types.error.value !== undefined;
  const queueNames = queues.data.value?.queues.map(({ queue }) => queue);
  const obstacles = useMemo(
    () => obstaclesOf(queues.data.value, workers.data.value),
    [queues.data.value, workers.data.value],
  );
  return {
    known: {
      types: isViewer ? (isTypesKnown ? all : undefined) : null,
      queues: isViewer ? (queueNames ?? (queues.error.value === undefined ? undefined : [])) : null,
    },
    types: all,
    obstacles,
    workers: obstacles.workers?.length,
  };
}

/** Lists that were left lately: coming back from a job, the page is as it was. */
const left = new Map<string, JobList>();

/** `list`: what is shown, until `next` is loaded. */
function useList(
  q: string,
  order: Order,
  read: (q: string) => Filter,
): { list: JobList | undefined; next: JobList | undefined; reload: () => void } {
  const [version, setVersion] = useState(0);
  const { isWaiting } = read(q);
  const next = useMemo(() => {
    if (isWaiting) return undefined;
    const key = `${order} ${q}`;
    const known = left.get(key);
    left.clear();
    const isKept = known !== undefined && version === 0 && Date.now() - known.loadedAt < KEPT_MS;
    const list = isKept ? known : new JobList(read(q), order);
    left.set(key, list);
    return list;
  }, [q, order, version, isWaiting]);
  // Before everything else that the view loads.
  useLayoutEffect(() => {
    if (next === undefined) return;
    if (next.cursor.peek() === undefined) void next.more();
    else void refresh(next);
    return () => next.stop();
  }, [next]);
  const reload = (): void => {
    setVersion(version + 1);
    scrollTo({ top: 0 });
  };
  const shown = useRef<JobList | undefined>(undefined);
  if (next !== undefined && (next.cursor.value !== undefined || next.error.value !== undefined)) shown.current = next;
  return { list: shown.current, next, reload };
}

/** Reads the rows again that are in the document. */
async function refresh(list: JobList): Promise<void> {
  const ids = [...document.querySelectorAll<HTMLElement>("tr.job")].map(({ dataset }) => dataset["id"] ?? "");
  const shown = ids.filter((id) => list.row(id) !== undefined);
  await list.refresh(shown.length > 0 ? shown : list.rows.peek().map(({ id }) => id)).catch(() => {
    // The shell says it if the server does not respond.
  });
}

/** Keeps rows up to date: by the event stream, after pauses and bulk changes, and by polling for the role user. */
function useFreshness(list: JobList | undefined, hasStream: boolean, reloadCounts: () => void): void {
  const counts = useRef(reloadCounts);
  counts.current = reloadCounts;
  useEffect(() => {
    if (list === undefined) return;
    const off = onJobs((jobs) => list.receive(jobs));
    let timer: ReturnType<typeof setInterval> | undefined;
    let wasLive = true;
    const offLive = effect(() => {
      clearInterval(timer);
      const isNow = isLive.value && connection.value.online;
      // What failed while no one was signed in, or while the server did not respond, is loaded now.
      if (isNow && !wasLive) void (list.error.peek() === undefined ? refresh(list) : list.more());
      wasLive = isNow;
      if (isNow && !hasStream) timer = setInterval(() => void refresh(list), POLL_MS);
    });
    let seen = endedOperations.peek();
    const offEnded = effect(() => {
      if (endedOperations.value === seen) return;
      seen = endedOperations.value;
      void refresh(list);
      counts.current();
    });
    const offMissed = onMissed(() => void refresh(list));
    return () => {
      off();
      offLive();
      offMissed();
      offEnded();
      clearInterval(timer);
    };
  }, [list, hasStream]);
}

function sourcesOf(list: JobList | undefined, filter: Filter, types: readonly string[]): Sources {
  const jobs = (list?.rows.peek() ?? []).map(({ job }) => job.peek());
  const unique = (values: readonly (string | null | undefined)[]): string[] => [
    ...new Set(values.filter((value) => value != null)),
  ];
  return {
    stats: stats.peek(),
    types,
    states: filter.conditions.state ?? [],
    shown: {
      user: unique(jobs.map(({ user }) => user)),
      tag: unique(jobs.flatMap(({ tags }) => tags)),
      schedule: unique(jobs.map(({ schedule }) => schedule?.name)),
    },
  };
}

/** Loads the list when jobs come to an empty one. */
function Reload({ run }: { run: () => void }): JSX.Element {
  useEffect(run, []);
  return <TableSkeleton />;
}

/** What of the filter is not used, and why. */
function Problems({ filter }: { filter: Filter }): JSX.Element | null {
  const unused = filter.tokens.filter(({ problem }) => problem !== null);
  if (unused.length === 0) return null;
  return (
    <div role="status">
      <ul class="note s-failed jobs-problems">
        {unused.map(({ text, problem }, at) => (
          <li key={at}>
            <Icon name="alert" />
            <span>
              <code>
                <bdi>{text.slice(0, 100)}</bdi>
              </code>{" "}
              is not used. {problem}.
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function NewChip({ list, onShow }: { list: JobList; onShow: () => void }): JSX.Element | null {
  const { value: count } = list.freshCount;
  if (count === 0) return null;
  return (
    <button type="button" class="newchip push" title="Show the new jobs (.)" onClick={onShow}>
      <Icon name="up" />
      {number(count)} new
    </button>
  );
}

interface ContentProps {
  list: JobList;
  selection: Selection | null;
  obstacles: Obstacles;
  total: ReturnType<typeof sum>;
  onClear: () => void;
}

function Content({ list, selection, obstacles, total, onClear }: ContentProps): JSX.Element {
  const { value: rows } = list.rows;
  const { value: error } = list.error;
  if (rows.length === 0) {
    if (error !== undefined)
      return (
        <section class="card">
          <Empty icon="alert" title={messageOf(error)}>
            <Button icon="retry" onClick={() => list.more()}>
              Try again
            </Button>
          </Empty>
        </section>
      );
    return <NoMatch list={list} onClear={onClear} />;
  }
  return (
    <section class="card" aria-label="Jobs">
      {selection !== null && <SelectionLine list={list} selection={selection} total={total} />}
      <JobTable key={list.number} list={list} selection={selection} obstacles={obstacles} />
      <Footer list={list} total={total} canSelect={selection !== null} />
    </section>
  );
}

function Footer({
  list,
  total,
  canSelect,
}: {
  list: JobList;
  total: ContentProps["total"];
  canSelect: boolean;
}): JSX.Element {
  const ref = useRef<HTMLDivElement>(null);
  const count = list.rows.value.length;
  const hasMore = list.cursor.value !== null;
  const isLoading = list.isLoading.value;
  const isAutomatic = hasMore && !list.isSearch && count < MAX_SCROLLED && list.error.value === undefined;
  useEffect(() => {
    if (!isAutomatic || ref.current === null) return;
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting === true && void list.more(), {
      rootMargin: "600px",
    });
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, [list, count, isAutomatic]);
  const text =
    list.isSearch || total === null
      ? `${plural(count, "job")}${hasMore ? " so far" : ""}${list.isSearch ? `. Looked at ${number(list.examined.value)}` : ""}`
      : hasMore
        ? `1–${number(count)} of ${countText(total)}`
        : plural(count, "job");
  return (
    <div class="card-f" ref={ref}>
      <span>{text}</span>
      {list.error.value !== undefined && <span class="bad">{messageOf(list.error.value)}</span>}
      <span class="push row wide-only">
        <kbd class="kbd">j</kbd>
        <kbd class="kbd">k</kbd> move
        {canSelect && (
          <>
            <kbd class="kbd">x</kbd> select
          </>
        )}
        <kbd class="kbd">↵</kbd> open
      </span>
      {hasMore && (
        <Button small onClick={() => (list.isSearch && isLoading ? list.stop() : void list.more())}>
          {list.isSearch ? (isLoading ? "Stop" : "Go on") : "Load more"}
        </Button>
      )}
    </div>
  );
}
