import type { JSX, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { go, setQuery } from "../../app/router.js";
import { addShortcuts } from "../../app/keys.js";
import { jobHref } from "../../app/links.js";
import { Icon } from "../../ui/icon.js";
import type { JobList, Row } from "./job-list.js";
import type { Obstacles } from "./job-text.js";
import { JobRow } from "./row.js";
import type { Selection } from "./selection.js";

interface JobTableProps {
  list: JobList;
  selection: Selection | null;
  obstacles: Obstacles;
}

/** More rows are not in the document at once. */
const MAX_ROWS = 200;
const BEFORE = 60;
/** The window moves by so many rows. */
const STEP = 20;

export function JobTable({ list, selection, obstacles }: JobTableProps): JSX.Element {
  const { value: rows } = list.rows;
  const body = useRef<HTMLTableSectionElement>(null);
  const { from, height } = useWindow(rows.length, body);
  const shown = rows.slice(from, from + MAX_ROWS);
  useRowKeys(list, selection, body, height);
  const columns = selection === null ? 9 : 10;
  const below = rows.length - from - shown.length;
  return (
    <div class="table-wrap">
      <table class="table jobs" aria-rowcount={rows.length + 1} aria-busy={list.isLoading.value}>
        <TableHead list={list} selection={selection} />
        <tbody ref={body}>
          {from > 0 && <Space height={from * height} columns={columns} />}
          {shown.map((row, at) => (
            <JobRow
              key={row.id}
              row={row}
              index={from + at}
              list={list}
              selection={selection}
              obstacles={obstacles}
              isPlain={list.conditions.state?.length === 1}
            />
          ))}
          {below > 0 && <Space height={below * height} columns={columns} />}
        </tbody>
      </table>
    </div>
  );
}

function Space({ height, columns }: { height: number; columns: number }): JSX.Element {
  return (
    <tr aria-hidden="true" class="space">
      <td colSpan={columns} style={{ height: `${height}px` }} />
    </tr>
  );
}

/** Which rows are near the visible part of the page. All have the same height. */
function useWindow(count: number, body: RefObject<HTMLTableSectionElement | null>): { from: number; height: number } {
  const [from, setFrom] = useState(0);
  const [height, setHeight] = useState(34);
  useEffect(() => {
    if (count <= MAX_ROWS) return setFrom(0);
    const place = (): void => {
      const { current } = body;
      const measured = current?.querySelector<HTMLElement>("tr.job")?.offsetHeight ?? 0;
      if (current === null || measured === 0) return;
      const first = Math.floor(-current.getBoundingClientRect().top / measured) - BEFORE;
      const last = Math.max(0, Math.ceil((count - MAX_ROWS) / STEP) * STEP);
      setHeight(measured);
      setFrom(Math.min(last, Math.max(0, Math.floor(first / STEP) * STEP)));
    };
    place();
    addEventListener("scroll", place, { passive: true });
    addEventListener("resize", place);
    return () => {
      removeEventListener("scroll", place);
      removeEventListener("resize", place);
    };
  }, [count]);
  return { from: count <= MAX_ROWS ? 0 : from, height };
}

/** `j`, `k`, Enter and `x`. */
function useRowKeys(
  list: JobList,
  selection: Selection | null,
  body: RefObject<HTMLTableSectionElement | null>,
  height: number,
): void {
  // At once, so that no key is lost after the rows are there.
  useLayoutEffect(() => {
    const move = (step: number): void => {
      const rows = list.rows.peek();
      const at = rows.findIndex(({ id }) => id === list.current.peek());
      const next = Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + step));
      const row = rows[next];
      if (row === undefined) return;
      list.current.value = row.id;
      show(row, next, body.current, height);
    };
    const current = (run: (id: string) => void) => () => {
      const { value: id } = list.current;
      if (id !== null) run(id);
    };
    const keys = [
      { key: "j", about: "Next job", run: () => move(1) },
      { key: "k", about: "Previous job", run: () => move(-1) },
      { key: "Enter", about: "Open the job", run: current((id) => go(jobHref(id))) },
    ];
    if (selection === null) return addShortcuts(keys);
    return addShortcuts([
      ...keys,
      { key: "x", about: "Select the job", run: current((id) => selection.toggle(id)) },
      { key: "X", about: "Select the jobs up to this one", run: current((id) => selection.toggle(id, true)) },
      { key: "a", about: "Select the jobs that are shown", run: () => selection.selectShown() },
    ]);
  }, [list, selection, height]);
}

function show({ id }: Row, index: number, body: HTMLElement | null, height: number): void {
  const element = body?.querySelector(`[data-id="${CSS.escape(id)}"]`);
  if (element != null) element.scrollIntoView({ block: "nearest" });
  else if (body !== null) {
    const top = body.getBoundingClientRect().top + scrollY;
    scrollTo(0, top + index * height - innerHeight / 2);
  }
}

function TableHead({ list, selection }: Pick<JobTableProps, "list" | "selection">): JSX.Element {
  const isNewest = list.order === "newest";
  return (
    <thead class="hide-narrow">
      <tr aria-rowindex={1}>
        {selection !== null && (
          <th class="tick" scope="col">
            <AllBox list={list} selection={selection} />
          </th>
        )}
        <th scope="col">State</th>
        <th scope="col">Type</th>
        <th scope="col" class="p2">
          Job
        </th>
        <th scope="col" class="p3">
          Queue
        </th>
        <th scope="col" class="p2">
          User
        </th>
        <th scope="col" class="fill">
          Error or note
        </th>
        <th scope="col" class="num p2">
          Attempt
        </th>
        <th scope="col" class="num" aria-sort={isNewest ? "descending" : "ascending"}>
          <button
            type="button"
            class="th-sort"
            title={isNewest ? "Newest first. Press for oldest first" : "Oldest first. Press for newest first"}
            onClick={() => setQuery({ order: isNewest ? "oldest" : null })}
          >
            Created
            <Icon name="sort" class={isNewest ? "" : "flip"} />
          </button>
        </th>
        <th scope="col" class="num p3 p4">
          Timing
        </th>
      </tr>
    </thead>
  );
}

function AllBox({ list, selection }: { list: JobList; selection: Selection }): JSX.Element {
  const { value: rows } = list.rows;
  const count = selection.ids.value.size;
  const isAll = count > 0 && rows.every(({ id }) => selection.has(id));
  return (
    <input
      type="checkbox"
      aria-label="Select the jobs that are shown"
      checked={isAll}
      // Preact sets it as a property.
      indeterminate={count > 0 && !isAll}
      onClick={() => (isAll ? selection.clear() : selection.selectShown())}
    />
  );
}

/** Grey bars in the columns of the table, while the first page is loaded. */
export function TableSkeleton(): JSX.Element {
  return (
    <div class="table-wrap" role="status" aria-label="Loading jobs">
      <table class="table" aria-hidden="true">
        <tbody>
          {Array.from({ length: 16 }, (_, at) => (
            <tr key={at}>
              <td>
                <span class="skel" />
              </td>
              <td>
                <span class="skel" />
              </td>
              <td class="fill">
                <span class="skel" />
              </td>
              <td>
                <span class="skel" />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
