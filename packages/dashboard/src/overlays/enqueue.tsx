import type { Enqueued, NewJobBody } from "holdfast/admin";
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api } from "../app/api.js";
import { jobHref } from "../app/links.js";
import { useResource } from "../app/resource.js";
import { go, PREFIX } from "../app/router.js";
import { toast } from "../app/toasts.js";
import { Button } from "../ui/button.js";
import { Dialog } from "../ui/dialog.js";
import { TextField } from "../ui/field.js";
import { Icon } from "../ui/icon.js";
import { issuesOf, JsonEditor, type Issue } from "../ui/json-editor.js";
import { fieldsOf, initialValue } from "../ui/schema-fields.js";
import { SchemaForm } from "../ui/schema-form.js";
import { useType } from "../ui/schema-of.js";
import { useSending } from "../ui/sending.js";
import { EMPTY, readDraft, requestOf, type Draft } from "./enqueue/draft.js";
import { Options } from "./enqueue/options.js";
import { Outlook } from "./enqueue/outlook.js";

const STORED = `holdfast.enqueue ${PREFIX}`;

function storedDraft(): Draft {
  try {
    return readDraft(sessionStorage.getItem(STORED));
  } catch {
    // Storage is disabled.
    return EMPTY;
  }
}

function storeDraft(draft: Draft): void {
  try {
    if (draft === EMPTY) sessionStorage.removeItem(STORED);
    else sessionStorage.setItem(STORED, JSON.stringify(draft));
  } catch {
    // It lasts until the dialog is closed.
  }
}

/** Enqueues a job. What was typed is kept until it is enqueued, or the tab is closed. */
export default function Enqueue({ onClose }: { onClose: () => void }): JSX.Element {
  const [draft, setDraft] = useState(storedDraft);
  const { issues: sent, error, send, forget } = useSending();
  const [isChecked, setChecked] = useState(false);
  const [isForm, setForm] = useState(true);
  const types = useResource("types", () => api.types.list());
  const type = useType(draft.type.trim());
  const fields = useMemo(() => (type?.input == null ? null : fieldsOf(type.input)), [type]);
  const { body, issues } = useMemo(() => requestOf(draft), [draft]);
  const object = objectOf(draft.input);
  const hasForm = fields !== null && isForm && object !== null;
  const { length: count } = issues;
  const shown = (name: string): Issue[] => [...(isChecked ? issuesOf(issues, name) : []), ...issuesOf(sent, name)];

  const set = (change: Partial<Draft>): void => {
    const next = { ...draft, ...change };
    setDraft(next);
    storeDraft(next);
    forget();
  };
  const typed = draft.type.trim();
  const setInput = (input: string): void => set({ input, inputOf: typed });
  useEffect(() => {
    if (fields === null || draft.inputOf === typed) return;
    // What was typed for another type is not its input.
    if (draft.inputOf !== "" || draft.input === EMPTY.input) setInput(JSON.stringify(initialValue(fields), null, 2));
  }, [fields]);
  const enqueue = async (): Promise<void> => {
    setChecked(true);
    if (count > 0) return;
    const result = await send(() => api.jobs.enqueue(body));
    if (result === undefined) return;
    storeDraft(EMPTY);
    onClose();
    report(result, body);
  };
  const isInvalid = isChecked && count > 0;
  return (
    <Dialog
      title="Enqueue a job"
      wide
      onClose={onClose}
      onSubmit={enqueue}
      footer={
        <>
          <span class="t3 wide-only">Recorded in the audit log</span>
          <span class="push" role="alert">
            {error !== null && <span class="bad">{error}</span>}
            {isInvalid && <span class="t3">{count === 1 ? "1 field to correct" : `${count} fields to correct`}</span>}
          </span>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" shortcut={navigator.platform.startsWith("Mac") ? "⌘↵" : "Ctrl ↵"} onClick={enqueue}>
            Enqueue
          </Button>
        </>
      }
    >
      <div
        class="dlg-cols"
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.metaKey || event.ctrlKey) && !event.defaultPrevented) void enqueue();
        }}
      >
        <div class="l">
          <TextField
            id="new-type"
            label="Type"
            class="mono"
            options={types.data.value?.types}
            issues={shown("type")}
            autofocus
            required
            placeholder="Such as email.receipt"
            value={draft.type}
            onText={(type) => set({ type })}
          />
          {fields !== null && <FormOrJson isForm={hasForm} mayBeForm={object !== null} onChange={setForm} />}
          {hasForm ? (
            <SchemaForm
              id="new-input"
              fields={fields}
              value={object}
              issues={issuesOf(sent, "input")}
              onChange={(value) => setInput(JSON.stringify(value, null, 2))}
            />
          ) : (
            <JsonEditor
              id="new-input"
              label="Input"
              rows={8}
              text={draft.input}
              issues={issuesOf(sent, "input")}
              onInput={setInput}
              onSubmit={() => void enqueue()}
            />
          )}
          <Options draft={draft} set={set} issues={shown} defaults={type?.defaults ?? null} />
        </div>
        <div class="r">
          <Outlook body={body} defaults={type?.defaults ?? null} />
        </div>
      </div>
    </Dialog>
  );
}

/** Says what became of it, with a link to the job. */
function report({ id, duplicate, replaced }: Enqueued, { type }: NewJobBody): void {
  const text = duplicate
    ? "Another job holds this unique key, so none was added."
    : replaced
      ? "The waiting job with this unique key was replaced."
      : `${type} is enqueued.`;
  toast(text, {
    kind: duplicate ? "info" : "done",
    action: {
      label: duplicate ? "Show that job" : "Show the job",
      run: () => go(jobHref(id)),
    },
  });
}

/** The input as an object; null: it is something else, or cannot be read. */
function objectOf(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text.trim() === "" ? "{}" : text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

function FormOrJson({
  isForm,
  mayBeForm,
  onChange,
}: {
  isForm: boolean;
  mayBeForm: boolean;
  onChange: (isForm: boolean) => void;
}): JSX.Element {
  return (
    <div class="row">
      <span class="label">Input</span>
      {!mayBeForm && (
        <span class="t3">
          <Icon name="info" class="sm" /> The form needs a JSON object.
        </span>
      )}
      <span class="seg push" role="group" aria-label="Input as">
        <button
          type="button"
          aria-pressed={isForm}
          aria-disabled={!mayBeForm || undefined}
          onClick={() => mayBeForm && onChange(true)}
        >
          Form
        </button>
        <button type="button" aria-pressed={!isForm} onClick={() => onChange(false)}>
          JSON
        </button>
      </span>
    </div>
  );
}
