import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { plural } from "../../app/format.js";
import { toast } from "../../app/toasts.js";
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

/** Saves the rows that are shown. */
export function ExportMenu({ list }: { list: JobList | undefined }): JSX.Element {
  const save = (format: "json" | "csv", close: () => void): void => {
    close();
    exportJobs(
      (list?.rows.value ?? []).map(({ job }) => job.value),
      format,
    );
  };
  const count = list?.rows.value.length ?? 0;
  return (
    <Menu label="Export" icon="export">
      {(close) => (
        <>
          <div class="head">{plural(count, "job")} shown, without inputs</div>
          <MenuItem onSelect={() => save("json", close)}>JSON</MenuItem>
          <MenuItem onSelect={() => save("csv", close)}>CSV</MenuItem>
        </>
      )}
    </Menu>
  );
}
