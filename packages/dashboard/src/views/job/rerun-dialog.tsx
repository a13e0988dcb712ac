import "../../styles/enqueue.css";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { AdminError, api, messageOf } from "../../app/api.js";
import { toast } from "../../app/toasts.js";
import { Button } from "../../ui/button.js";
import { Dialog } from "../../ui/dialog.js";
import { issuesOf, JsonEditor, type Issue } from "../../ui/json-editor.js";
import { formatJson, readForSending } from "../../ui/json-model.js";
import { openCopy } from "./actions.js";
import { hasRedacted } from "./edit-dialog.js";
import type { LoadedJob } from "./load-job.js";

/** Enqueues a new job of the same type with a changed input. */
export function RerunDialog({ loaded, onClose }: { loaded: LoadedJob; onClose: () => void }): JSX.Element {
  const [{ job, input }] = useState(loaded);
  const [text, setText] = useState(() => formatJson(input.text, input.node));
  const [issues, setIssues] = useState<readonly Issue[]>([]);
  const [error, setError] = useState<string | null>(null);
  const read = readForSending(text);
  const rerun = async (): Promise<void> => {
    if (read.error !== undefined) return;
    setIssues([]);
    setError(null);
    try {
      const { id } = await api.jobs.rerun({ id: job.id, input: read.value });
      onClose();
      toast("A new job is enqueued.");
      openCopy(id);
    } catch (thrown) {
      const found = thrown instanceof AdminError ? issuesOf(thrown.issues, "input") : [];
      setIssues(found);
      if (found.length === 0) setError(messageOf(thrown));
    }
  };
  return (
    <Dialog
      title="Edit and rerun"
      onClose={onClose}
      onSubmit={rerun}
      wide
      footer={
        <>
          {error !== null && (
            <p class="err-line" role="alert">
              {error}
            </p>
          )}
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" disabled={read.error !== undefined} onClick={rerun}>
            Enqueue a new job
          </Button>
        </>
      }
    >
      <div class="stack">
        <p class="t2">
          A new{" "}
          <b class="strong">
            <bdi>{job.type}</bdi>
          </b>{" "}
          job gets this input, and the queue, priority, user and tags of this one. This job stays as it is.
        </p>
        <JsonEditor
          id="rerun-input"
          label="Input"
          hint={hasRedacted(input.text) ? "“[redacted]” keeps the stored value." : ""}
          rows={16}
          text={text}
          issues={issues}
          onInput={setText}
          onSubmit={() => void rerun()}
        />
      </div>
    </Dialog>
  );
}
