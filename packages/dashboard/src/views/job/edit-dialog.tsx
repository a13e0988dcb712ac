import "../../styles/enqueue.css";
import type { JobChanges, JobDetail } from "holdfast/admin";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { AdminError, api, messageOf } from "../../app/api.js";
import { act, toast } from "../../app/toasts.js";
import { Button } from "../../ui/button.js";
import { Dialog } from "../../ui/dialog.js";
import { Field, Input, type InputProps } from "../../ui/field.js";
import { issuesOf, JsonEditor, type Issue } from "../../ui/json-editor.js";
import { formatJson, readForSending } from "../../ui/json-model.js";
import { changesOf, localTime, undoOf, type Edited } from "./edits.js";
import type { LoadedJob } from "./load-job.js";

/** Changes a waiting job. What was not touched is not sent. */
export function EditDialog({
  loaded,
  onClose,
  onDone,
}: {
  loaded: LoadedJob;
  onClose: () => void;
  onDone: () => void;
}): JSX.Element {
  // What was loaded when the dialog was opened: the page goes on loading.
  const [{ job, input }] = useState(loaded);
  const [first] = useState(() => editedOf(job, formatJson(input.text, input.node)));
  const [edited, setEdited] = useState(first);
  const [issues, setIssues] = useState<readonly Issue[]>([]);
  const [error, setError] = useState<string | null>(null);
  const set = (change: Partial<Edited>): void => setEdited({ ...edited, ...change });
  const bind = (name: Exclude<keyof Edited, "input">): InputProps => ({
    id: `edit-${name}`,
    value: edited[name],
    isBad: issuesOf(issues, name).length > 0,
    onInput: (text) => set({ [name]: text }),
  });
  const save = async (): Promise<void> => {
    const read = changesOf(first, edited);
    setIssues(read.issues);
    setError(null);
    if (read.issues.length > 0 || readForSending(edited.input).error !== undefined) return;
    if (Object.keys(read.changes).length === 0) return onClose();
    try {
      await api.jobs.update({ id: job.id, ...read.changes });
    } catch (thrown) {
      const found = thrown instanceof AdminError ? thrown.issues : [];
      setIssues(found);
      const isShown = found.some(({ path }) => Object.hasOwn(first, path.split(".", 1)[0] ?? ""));
      if (!isShown) setError(messageOf(thrown));
      return;
    }
    onDone();
    onClose();
    offerUndo(job, read.changes, input.text, onDone);
  };
  const hasInputError = edited.input !== first.input && readForSending(edited.input).error !== undefined;
  return (
    <Dialog
      title="Edit this job"
      wide
      onClose={onClose}
      onSubmit={save}
      footer={
        <>
          {error !== null && (
            <p class="err-line" role="alert">
              {error}
            </p>
          )}
          <Button onClick={onClose}>Keep as it is</Button>
          <Button kind="primary" disabled={hasInputError} onClick={save}>
            Save
          </Button>
        </>
      }
    >
      <div class="stack">
        <div class="two-f">
          <Field id="edit-runAt" label="Due" about="in your time zone" issues={issuesOf(issues, "runAt")}>
            <Input {...bind("runAt")} type="datetime-local" />
          </Field>
          <Field id="edit-expiresAt" label="Expires" about="empty: never" issues={issuesOf(issues, "expiresAt")}>
            <Input {...bind("expiresAt")} type="datetime-local" />
          </Field>
          <Field id="edit-priority" label="Priority" about="-100 to 100" issues={issuesOf(issues, "priority")}>
            <Input {...bind("priority")} inputMode="numeric" />
          </Field>
          <Field id="edit-queue" label="Queue" issues={issuesOf(issues, "queue")}>
            <Input {...bind("queue")} />
          </Field>
          <Field
            id="edit-maxAttempts"
            label="Max attempts"
            about={`${job.attempt} used`}
            issues={issuesOf(issues, "maxAttempts")}
          >
            <Input {...bind("maxAttempts")} inputMode="numeric" />
          </Field>
          <Field id="edit-tags" label="Tags" about="separated by commas" issues={issuesOf(issues, "tags")}>
            <Input {...bind("tags")} />
          </Field>
        </div>
        <JsonEditor
          id="edit-input"
          label="Input"
          hint={hasRedacted(input.text) ? "“[redacted]” keeps the stored value." : ""}
          text={edited.input}
          issues={issuesOf(issues, "input")}
          onInput={(text) => set({ input: text })}
          onSubmit={() => void save()}
        />
      </div>
    </Dialog>
  );
}

export function hasRedacted(text: string): boolean {
  return text.includes('"[redacted]"');
}

function editedOf({ dueAt, runAt, expiresAt, priority, queue, maxAttempts, tags }: JobDetail, input: string): Edited {
  return {
    runAt: localTime(dueAt ?? runAt),
    expiresAt: expiresAt === null ? "" : localTime(expiresAt),
    priority: String(priority),
    queue,
    maxAttempts: String(maxAttempts),
    tags: tags.join(", "),
    input,
  };
}

function offerUndo(job: JobDetail, changes: JobChanges, inputText: string, onDone: () => void): void {
  const undo = undoOf(job, changes, inputText);
  toast("The job is changed.", {
    action: {
      label: "Undo",
      run: () => void act(() => api.jobs.update({ id: job.id, ...undo }), "The job is as it was before.").then(onDone),
    },
  });
}
