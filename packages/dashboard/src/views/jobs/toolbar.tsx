import type { JobSummary } from "holdfast/admin";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { number, plural } from "../../app/format.js";
import { act, toast } from "../../app/toasts.js";
import { Button } from "../../ui/button.js";
import { Dialog } from "../../ui/dialog.js";
import { TextField } from "../../ui/field.js";
import { Menu, type MenuItem } from "../../ui/menu.js";
import { exportJobs } from "./export.js";
import type { JobList } from "./job-list.js";
import { BUILT_IN, removeView, savedViews, saveView, type SavedView } from "./saved-views.js";

/** Filters with a name. They are kept in this browser. */
export function ViewsMenu({ q, onApply }: { q: string; onApply: (q: string) => void }): JSX.Element {
  const [isNaming, setNaming] = useState(false);
  const { value: saved } = savedViews;
  const item = (view: SavedView): MenuItem => ({ label: view.name, about: view.q, run: () => onApply(view.q) });
  const remove = (view: SavedView): void => {
    removeView(view.name);
    toast(`The view ${view.name} was removed.`, { action: { label: "Undo", run: () => saveView(view) } });
  };
  const items: (MenuItem | string)[] = [
    ...BUILT_IN.map(item),
    ...(saved.length > 0 ? ["Saved in this browser"] : []),
    ...saved.map((view) => ({ ...item(view), remove: () => remove(view) })),
    ...(q === "" ? [] : [{ label: "Save this filter…", icon: "plus" as const, run: () => setNaming(true) }]),
  ];
  return (
    <>
      <Menu label="Views" icon="bookmark" class="" hasWord items={items} />
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
      <TextField
        id="view-name"
        label="Name"
        hint={<code>{q}</code>}
        required
        maxLength={60}
        value={name}
        onText={setName}
      />
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
  const save = (load: () => Promise<readonly JobSummary[]>): MenuItem[] =>
    FORMATS.map((format) => ({
      label: format.toUpperCase(),
      run: () => void act(async () => exportJobs(await load(), format)),
    }));
  const loadAll = async (of: JobList): Promise<readonly JobSummary[]> => {
    toast("The jobs are loaded. The file is saved when they are there.", { kind: "info" });
    return of.loadAll(MAX_EXPORTED);
  };
  const items = [
    `${plural(count, "job")} shown, without inputs`,
    ...save(async () => (list?.rows.value ?? []).map(({ job }) => job.value)),
    ...(hasMore ? [`All that match, ${number(MAX_EXPORTED)} at most`, ...save(() => loadAll(list))] : []),
  ];
  return <Menu label="Export" icon="export" class="" hasWord items={items} />;
}
