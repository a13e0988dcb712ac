import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { plural } from "../../app/format.js";
import { toast } from "../../app/toasts.js";
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

/** Saves the rows that are shown. */
export function ExportMenu({ list }: { list: JobList | undefined }): JSX.Element {
  const jobs = list?.rows.value ?? [];
  const save = (format: "json" | "csv"): MenuItem => ({
    label: format.toUpperCase(),
    run: () =>
      exportJobs(
        jobs.map(({ job }) => job.value),
        format,
      ),
  });
  const items = [`${plural(jobs.length, "job")} shown, without inputs`, save("json"), save("csv")];
  return <Menu label="Export" icon="export" class="" hasWord items={items} />;
}
