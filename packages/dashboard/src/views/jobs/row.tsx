import { useComputed } from "../../app/signals.js";
import type { JSX } from "preact";
import { shortId } from "../../app/format.js";
import { jobHref } from "../../app/links.js";
import { now } from "../../app/now.js";
import { go } from "../../app/router.js";
import { Icon } from "../../ui/icon.js";
import { StateLabel } from "../../ui/state.js";
import { Time } from "../../ui/time.js";
import type { JobList, Row } from "./job-list.js";
import { noteOf, oneLine, timing, type Note, type Obstacles } from "./job-text.js";
import type { Selection } from "./selection.js";

interface JobRowProps {
  row: Row;
  /** From 0. */
  index: number;
  list: JobList;
  /** Null: the role may change nothing. */
  selection: Selection | null;
  obstacles: Obstacles;
  /** All rows have the same state, so errors need no colour. */
  isPlain: boolean;
}

export function JobRow({ row, index, list, selection, obstacles, isPlain }: JobRowProps): JSX.Element {
  const { value: job } = row.job;
  const isSelected = useComputed(() => selection?.has(row.id) === true, [selection, row.id]).value;
  const isCurrent = useComputed(() => list.current.value === row.id, [list, row.id]).value;
  const note = noteOf(job, obstacles, now.peek());
  const href = jobHref(row.id);
  const open = (event: MouseEvent): void => {
    if (event.target instanceof Element && event.target.closest("a, button, input, time") !== null) return;
    // People select text to copy it.
    if (getSelection()?.isCollapsed === false) return;
    if (event.ctrlKey || event.metaKey || event.button === 1) window.open(href, "_blank", "noopener");
    else {
      list.current.value = row.id;
      go(href);
    }
  };
  const type = oneLine(job.type, 80);
  return (
    <tr
      class={`job ${isCurrent ? "cursor" : ""} ${row.isStale.value ? "stale" : ""}`}
      title={row.isStale.value ? "No longer matches. It is shown until the list is loaded again." : undefined}
      data-id={row.id}
      aria-rowindex={index + 2}
      aria-selected={selection === null ? undefined : isSelected}
      onClick={open}
      onAuxClick={(event) => event.button === 1 && open(event)}
    >
      {selection !== null && (
        <td class="tick">
          <input
            type="checkbox"
            checked={isSelected}
            aria-label={`Select ${type} ${shortId(row.id)}`}
            onClick={(event) => {
              list.current.value = row.id;
              selection.toggle(row.id, event.shiftKey);
            }}
          />
        </td>
      )}
      <td class="wide-only">
        <StateLabel state={job.state} />
      </td>
      <td class="two-n">
        <span class="narrow-only">
          <span class={`state s-${job.state}`}>
            <Icon name={job.state} />
          </span>
        </span>
        <a class="strong" href={href} title={job.type} onClick={() => (list.current.value = row.id)}>
          <bdi>{type}</bdi>
        </a>
        <span class="sub-n narrow-only">
          <span class={`s-${job.state} stw`}>{job.state}</span> · <bdi>{note?.text ?? oneLine(job.queue, 60)}</bdi>
        </span>
      </td>
      <td class="p2">
        <span class="mono t3" title={row.id}>
          {shortId(row.id)}
        </span>
      </td>
      <Name value={job.queue} class="p3" />
      <Name value={job.user} class="p2" />
      <NoteCell note={note} isPlain={isPlain} />
      <td class="num p2 t2">
        {job.attempt} / {job.maxAttempts}
      </td>
      <td class="num t2">
        <Time at={job.createdAt} />
      </td>
      <td class="num p3 p4 t2">
        <Timing row={row} />
      </td>
    </tr>
  );
}

/** Not part of the row, which would be rendered each second. */
function Timing({ row }: { row: Row }): JSX.Element {
  const text = useComputed(() => timing(row.job.value, now.value), [row]);
  return <>{text.value}</>;
}

function Name({ value, class: extra }: { value: string | null; class: string }): JSX.Element {
  return (
    <td class={`t2 ${extra}`}>
      {value === null ? (
        <span class="t3">–</span>
      ) : (
        <bdi class="name" title={value}>
          {oneLine(value, 60)}
        </bdi>
      )}
    </td>
  );
}

function NoteCell({ note, isPlain }: { note: Note | null; isPlain: boolean }): JSX.Element {
  const colour = note === null || note.kind === "plain" || isPlain ? "t2" : note.kind;
  return (
    <td class={`fill wide-only ${colour}`} title={note?.title}>
      <bdi>{note?.text}</bdi>
    </td>
  );
}
