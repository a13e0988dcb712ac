import type { JobChanges, JobDetail } from "holdfast/admin";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api } from "../../app/api.js";
import { localTime } from "../../app/format.js";
import { act, toast } from "../../app/toasts.js";
import { Button } from "../../ui/button.js";
import { Dialog } from "../../ui/dialog.js";
import { TextField, type InputProps } from "../../ui/field.js";
import { issuesOf, JsonEditor, type Issue } from "../../ui/json-editor.js";
import { formatJson, readForSending } from "../../ui/json-model.js";
import { useSending } from "../../ui/sending.js";
import { openCopy } from "./actions.js";
import { changesOf, isRedacted, undoOf, type Edited } from "./edits.js";
import type { LoadedJob } from "./load-job.js";

interface EditDialogProps {
  loaded: LoadedJob;
  /** Enqueues a new job of the same type with a changed input, instead of changing this one. */
  isRerun: boolean;
  onClose: () => void;
  onDone: () => void;
}

/** Changes a waiting job, or a copy of another one. What was not touched is not sent. */
export function EditDialog({ loaded, isRerun, onClose, onDone }: EditDialogProps): JSX.Element {
  // What was loaded when the dialog was opened: the page goes on loading.
  const [{ job, input }] = useState(loaded);
  const [first] = useState(() => editedOf(job, formatJson(input.text, input.node)));
  const [edited, setEdited] = useState(first);
  const [own, setOwn] = useState<readonly Issue[]>([]);
  const sending = useSending();
  const issues = [...own, ...sending.issues];
  const isChanged = edited.input !== first.input;
  const read: Partial<ReturnType<typeof readForSending>> = isRerun || isChanged ? readForSending(edited.input) : {};
  const rerun = async (): Promise<void> => {
    const copy = await sending.send(
      () => api.jobs.rerun({ id: job.id, input: read.value }),
      (path) => path.startsWith("input"),
    );
    if (copy === undefined) return;
    onClose();
    toast("A new job is enqueued.");
    openCopy(copy.id);
  };
  const save = async (): Promise<void> => {
    if (read.error !== undefined) return;
    if (isRerun) return rerun();
    const { changes, issues: unread } = changesOf(first, edited);
    setOwn(unread);
    if (unread.length > 0) return;
    if (Object.keys(changes).length === 0) return onClose();
    const done = await sending.send(
      () => api.jobs.update({ id: job.id, ...changes }),
      (path) => Object.hasOwn(first, path.split(".", 1)[0] ?? ""),
    );
    if (done === undefined) return;
    onDone();
    onClose();
    offerUndo(job, changes, input.text, onDone);
  };
  const field = (
    name: Exclude<keyof Edited, "input">,
    label: string,
    about = "",
    more: Partial<InputProps> = {},
  ): JSX.Element => {
    return (
      <TextField
        id={`edit-${name}`}
        label={label}
        about={about}
        issues={issuesOf(issues, name)}
        value={edited[name]}
        onText={(text) => setEdited({ ...edited, [name]: text })}
        {...more}
      />
    );
  };
  return (
    <Dialog
      title={isRerun ? "Edit and rerun" : "Edit this job"}
      wide
      onClose={onClose}
      onSubmit={save}
      footer={
        <>
          {sending.error !== null && (
            <p class="err-line" role="alert">
              {sending.error}
            </p>
          )}
          <Button onClick={onClose}>{isRerun ? "Cancel" : "Keep as it is"}</Button>
          <Button kind="primary" type="submit" disabled={read.error !== undefined}>
            {isRerun ? "Enqueue a new job" : "Save"}
          </Button>
        </>
      }
    >
      <div class="stack">
        {isRerun ? (
          <p class="t2">
            A new{" "}
            <b class="strong">
              <bdi>{job.type}</bdi>
            </b>{" "}
            job gets this input, and the queue, priority, user and tags of this one. This job stays as it is.
          </p>
        ) : (
          <div class="two-f">
            {field("runAt", "Due", "in your time zone", { type: "datetime-local", step: 1 })}
            {field("expiresAt", "Expires", "empty: never", { type: "datetime-local", step: 1 })}
            {field("priority", "Priority", "-100 to 100", { inputMode: "numeric" })}
            {field("queue", "Queue")}
            {field("maxAttempts", "Max attempts", `${job.attempt} used`, { inputMode: "numeric" })}
            {field("tags", "Tags", "separated by commas")}
          </div>
        )}
        <JsonEditor
          id="edit-input"
          label="Input"
          hint={isRedacted(input.text) ? "“[redacted]” keeps the stored value." : ""}
          rows={isRerun ? 16 : 10}
          text={edited.input}
          issues={issuesOf(issues, "input")}
          onInput={(text) => setEdited({ ...edited, input: text })}
          onSubmit={() => void save()}
        />
      </div>
    </Dialog>
  );
}

function editedOf({ dueAt, runAt, expiresAt, priority, queue, maxAttempts, tags }: JobDetail, input: string): Edited {
  return {
    runAt: localTime(dueAt ?? runAt),
    expiresAt: localTime(expiresAt),
    priority: String(priority),
    queue,
    maxAttempts: String(maxAttempts),
    tags: tags.join(", "),
    input,
  };
}

function offerUndo(job: JobDetail, changes: JobChanges, inputText: string, onDone: () => void): void {
  const undo = undoOf(job, changes, inputText);
  const run = (): unknown =>
    act(() => api.jobs.update({ id: job.id, ...undo }), "The job is as it was before.").then(onDone);
  toast("The job is changed.", undo === null ? {} : { action: { label: "Undo", run } });
}
