import type { CountResult } from "holdfast/admin";
import type { JSX } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { may } from "../../app/api.js";
import { countText, number, plural } from "../../app/format.js";
import { addShortcuts } from "../../app/keys.js";
import { Button } from "../../ui/button.js";
import { Icon } from "../../ui/icon.js";
import { ACTIONS, canApply, type Action, type Target } from "./actions.js";
import { BulkDialog } from "./bulk-dialog.js";
import type { JobList } from "./job-list.js";
import type { Selection } from "./selection.js";

interface Props {
  list: JobList;
  selection: Selection;
  /** How many jobs match the filter; null: not counted. */
  total: CountResult | null;
}

/** What the caller may do with many jobs. */
export function allowedActions(): readonly Action[] {
  return ACTIONS.filter(({ role, ofUser }) => may(role) || (ofUser && !may("viewer")));
}

/** Above the table: offers all jobs that match, also those that are not loaded. */
export function SelectionLine({ list, selection, total }: Props): JSX.Element | null {
  if (selection.isEmpty.value) return null;
  const isAll = selection.allAt.value !== null;
  const count = selection.ids.value.size;
  const hasMore = list.cursor.value !== null || count < list.rows.value.length;
  const isUsed = list.filter.tokens.every(({ problem }) => problem === null);
  // A bulk change is for operators. With a part of the filter unused, more jobs would match than were meant.
  const offersAll = may("operator") && hasMore && isUsed;
  if (!isAll && !offersAll) return null;
  return (
    <div class="selbar">
      <Icon name="check" />
      {isAll ? (
        <>
          <span>
            <b class="strong">
              {total === null ? "All matching jobs" : `All ${countText(total)} matching jobs`} are selected.
            </b>{" "}
            New ones are not added.
          </span>
          <button type="button" class="link strong push" onClick={() => selection.selectShown()}>
            Select only the {number(list.rows.value.length)} shown
          </button>
        </>
      ) : (
        <>
          <span>{plural(count, "job is", "jobs are")} selected.</span>
          <button type="button" class="link strong push" onClick={() => selection.selectAll()}>
            Select all {total === null ? "" : `${countText(total)} `}matching
          </button>
        </>
      )}
    </div>
  );
}

/** The actions for the selected jobs. */
export function BulkBar({ list, selection, total }: Props): JSX.Element | null {
  const [open, setOpen] = useState<{ action: Action; target: Target } | null>(null);
  const isEmpty = selection.isEmpty.value;
  // Read when it is needed: a key may be pressed before the page shows what was selected.
  const targetOf = (): Target => {
    const { value: allAt } = selection.allAt;
    if (allAt !== null) return { kind: "filter", conditions: list.conditions, createdBefore: allAt };
    return { kind: "ids", jobs: [...selection.ids.value].flatMap((id) => list.row(id)?.job.value ?? []) };
  };
  const start = (action: Action): void => {
    const target = targetOf();
    if (!selection.isEmpty.peek() && canApply(action, target)) setOpen({ action, target });
  };
  useLayoutEffect(() => {
    if (isEmpty) return;
    const keys = allowedActions().flatMap((action) =>
      action.key === undefined
        ? []
        : [{ key: action.key, about: `${action.label} the selected jobs`, run: () => start(action) }],
    );
    return addShortcuts([...keys, { key: "Escape", about: "Select nothing", run: () => selection.clear() }]);
  }, [selection, isEmpty]);
  if (isEmpty) return null;
  const target = targetOf();
  const usable = allowedActions().filter((action) => canApply(action, target));
  const count =
    selection.allAt.value === null ? number(selection.ids.value.size) : total === null ? "All" : countText(total);
  return (
    <div class="bulk" role="toolbar" aria-label="Bulk actions">
      <span class="cnt">
        <Button icon="x" kind="ghost" small label="Select nothing" onClick={() => selection.clear()} />
        {count} <span class="wide-only">selected</span>
      </span>
      <span class="sep" />
      {usable.map((action, at) => (
        <Button
          key={action.name}
          icon={action.icon}
          kind={at === 0 && action.name !== "delete" ? "primary" : "ghost"}
          class={action.name === "delete" ? "danger" : ""}
          small
          title={`${action.label}…`}
          {...(action.key !== undefined && { shortcut: action.key })}
          onClick={() => start(action)}
        >
          {action.label}…
        </Button>
      ))}
      {open !== null && (
        <BulkDialog
          {...open}
          onClose={() => setOpen(null)}
          onStarted={() => {
            setOpen(null);
            selection.clear();
          }}
        />
      )}
    </div>
  );
}
