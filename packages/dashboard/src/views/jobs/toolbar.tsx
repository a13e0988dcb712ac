import type { JobSummary } from "holdfast/admin";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { number, plural } from "../../app/format.js";
import { act, toast } from "../../app/toasts.js";
import { Button } from "../../ui/button.js";
import { Dialog } from "../../ui/dialog.js";
import { Icon } from "../../ui/icon.js";
import { exportJobs } from "./export.js";
import type { JobList } from "./job-list.js";
import { Menu, MenuItem } from "./menu.js";
import { BUILT_IN, removeView, savedViews, saveView } from "./saved-views.js";

/** Filters with a name. They are kept in this browser. */
export function ViewsMenu({ q, onApply }: { q: string; onApply: (q: string) => void }): JSX.Element {
  const [isNaming, setNaming] = useState(false);
  const { value: saved } = savedViews;
  const use = (view: string, close: () => void): void => {
    close();
    onApply(view);
  };
  return (
    <>
      <Menu label="Views" icon="bookmark">
        {(close) => (
          <>
            {BUILT_IN.map((view) => (
              <MenuItem key={view.name} onSelect={() => use(view.q, close)}>
                {view.name}
                <code class="push cut">{view.q}</code>
              </MenuItem>
            ))}
            {saved.length > 0 && <div class="head">Saved in this browser</div>}
            {saved.map((view) => (
              <div key={view.name} class="row" role="none">
                <MenuItem onSelect={() => use(view.q, close)}>
                  <bdi class="cut">{view.name}</bdi>
                  <code class="push cut">{view.q}</code>
                </MenuItem>
                <button
                  type="button"
                  class="btn ghost icon sm"
                  role="menuitem"
                  tabIndex={-1}
                  aria-label={`Remove the view ${view.name}`}
                  onClick={() => {
                    removeView(view.name);
                    close();
                    toast(`The view ${view.name} was removed.`, {
                      action: { label: "Undo", run: () => saveView(view) },
                    });
                  }}
                >
                  <Icon name="x" />
                </button>
              </div>
            ))}
            {q !== "" && (
              <MenuItem
                icon={<Icon name="plus" />}
                onSelect={() => {
                  close();
                  setNaming(true);
                }}
              >
                Save this filter…
              </MenuItem>
            )}
          </>
        )}
      </Menu>
      {isNaming && <NameDialog q={q} onClose={() => setNaming(false)} />}
    </>
  );
}

function NameDialog({ q, onClose }: { q: string; onClose: () => void }): JSX.Element {
  const [name, setName] = useState("");
  return (
    <Dialog
      title="Save this filter"
      onClose={onClose}
      onSubmit={() => {
        if (name.trim() === "") return;
        saveView({ name: name.trim(), q });
        onClose();
      }}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit">
            Save
          </Button>
        </>
      }
    >
      <div class="field">
        <label for="view-name">Name</label>
        <input
          id="view-name"
          class="input"
          required
          maxLength={60}
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
        <p class="hint">
          <code>{q}</code>
        </p>
      </div>
    </Dialog>
  );
}

const MAX_EXPORTED = 10_000;
const FORMATS = ["json", "csv"] as const;

/** Saves the rows that are shown, or all jobs that match. */
export function ExportMenu({ list }: { list: JobList | undefined }): JSX.Element {
  const count = list?.rows.value.length ?? 0;
  // A search reads all jobs, and only its reader knows when it is enough.
  const hasMore = list !== undefined && !list.isSearch && typeof list.cursor.value === "string";
  const items = (load: () => Promise<readonly JobSummary[]>, close: () => void): JSX.Element[] =>
    FORMATS.map((format) => (
      <MenuItem
        key={format}
        onSelect={() => {
          close();
          void act(async () => exportJobs(await load(), format));
        }}
      >
        {format.toUpperCase()}
      </MenuItem>
    ));
  return (
    <Menu label="Export" icon="export">
      {(close) => (
        <>
          <div class="head">{plural(count, "job")} shown, without inputs</div>
          {items(async () => (list?.rows.value ?? []).map(({ job }) => job.value), close)}
          {hasMore && (
            <>
              <div class="head">All that match, {number(MAX_EXPORTED)} at most</div>
              {items(async () => {
                toast("The jobs are loaded. The file is saved when they are there.", { kind: "info" });
                return list.loadAll(MAX_EXPORTED);
              }, close)}
            </>
          )}
        </>
      )}
    </Menu>
  );
}
