import type { ScheduleResult } from "holdfast/admin";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { AdminError, api, messageOf } from "../../app/api.js";
import { plural } from "../../app/format.js";
import { stats } from "../../app/live.js";
import { useResource } from "../../app/resource.js";
import { toast } from "../../app/toasts.js";
import { Button } from "../../ui/button.js";
import { Dialog } from "../../ui/dialog.js";
import { Field, SelectField, TextField, type TextFieldProps } from "../../ui/field.js";
import { Icon } from "../../ui/icon.js";
import { draftOf, fieldErrors, NEW_DRAFT, readDraft, timingOf, type Draft, type FieldErrors } from "./form.js";
import type { LoadedSchedule } from "./load-schedule.js";
import { NextRuns, usePreview } from "./preview.js";
import { TimingFields } from "./timing-fields.js";
import { ResetSchedule } from "./schedule-actions.js";
import { viewerZone, zoneLabel } from "./zones.js";

interface ScheduleDialogProps {
  /** Null: a new one. */
  schedule: LoadedSchedule | null;
  onClose: () => void;
  onSaved: (schedule: ScheduleResult) => void;
  /** Asks whether to delete it. */
  onDelete?: () => void;
}

const OVERLAPS = [
  ["allow", "Run anyway"],
  ["skip", "Skip the slot"],
] as const;

/** Creates or edits a schedule, and shows its next runs while it is edited. */
export function ScheduleDialog({ schedule, onClose, onSaved, onDelete }: ScheduleDialogProps): JSX.Element {
  const [before] = useState(() => (schedule === null ? null : draftOf(schedule)));
  const [draft, setDraft] = useState<Draft>(() => before ?? { ...NEW_DRAFT, timezone: viewerZone() });
  const [refused, setRefused] = useState<FieldErrors>({});
  const [isBusy, setBusy] = useState(false);
  const [isResetting, setResetting] = useState(false);
  const types = useResource("types", () => api.types.list());
  const preview = usePreview(timingOf(draft));
  const set = (changes: Partial<Draft>): void => {
    setDraft((old) => ({ ...old, ...changes }));
    // What was refused has been changed.
    setRefused((old) =>
      Object.fromEntries(Object.entries(old).filter(([field]) => field !== "form" && !(field in changes))),
    );
  };
  const errors: FieldErrors = { ...refused, ...preview.errors };
  const count = Object.keys(errors).filter((field) => field !== "form").length;
  const save = async (): Promise<void> => {
    if (isBusy) return;
    const { body, errors: own } = readDraft(draft, before);
    if (Object.keys(own).length > 0) return show(own);
    if (schedule !== null && Object.keys(body).length === 0) return onClose();
    setBusy(true);
    try {
      const saved =
        schedule === null
          ? await api.schedules.create({ ...body, name: draft.name, job: draft.job.trim() })
          : await api.schedules.update({ ...body, name: schedule.name });
      toast(schedule === null ? `Created ${saved.name}.` : `Saved ${saved.name}.`);
      onSaved(saved);
    } catch (error) {
      const isAboutFields = error instanceof AdminError && error.status >= 400 && error.status < 500;
      show(isAboutFields ? fieldErrors(error.issues, error.code, error.message) : { form: messageOf(error) });
    } finally {
      setBusy(false);
    }
  };
  const show = (found: FieldErrors): void => {
    setRefused(found);
    const [first] = Object.keys(found);
    const control = document.getElementById(`s-${first}`);
    control?.closest("details")?.setAttribute("open", "");
    control?.focus();
  };
  const text = (field: keyof Draft, label: string, more: Partial<TextFieldProps> = {}): JSX.Element => (
    <TextField
      id={`s-${field}`}
      label={label}
      error={errors[field]}
      value={draft[field]}
      onText={(value) => set({ [field]: value })}
      {...more}
    />
  );
  const ofType = schedule === null ? { placeholder: "From the type" } : {};
  const inYourZone = `In ${zoneLabel(viewerZone())} (yours).`;
  const known = types.data.value?.types;
  const isUnknown = known !== undefined && draft.job !== "" && !known.includes(draft.job.trim());
  return (
    <Dialog
      title={schedule === null ? "New schedule" : `Edit ${schedule.name}`}
      wide
      onClose={onClose}
      onSubmit={save}
      footer={
        <>
          {onDelete !== undefined && (
            <Button kind="ghost" class="danger" icon="trash" onClick={onDelete}>
              Delete…
            </Button>
          )}
          <span class="push t3" role="status">
            {errors.form !== undefined ? (
              <span class="bad">{errors.form}</span>
            ) : (
              count > 0 && `${plural(count, "field")} to correct`
            )}
          </span>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={isBusy}>
            {schedule === null ? "Create schedule" : "Save changes"}
          </Button>
        </>
      }
    >
      <div class="dlg-cols">
        <div class="l">
          {schedule === null && text("name", "Name", { required: true, autofocus: true })}
          <div class="two-f">
            {text("job", "Job type", {
              required: true,
              options: known,
              hint: isUnknown ? "No live worker knows this type." : undefined,
            })}
            {text("queue", "Queue", { options: Object.keys(stats.value?.queues ?? {}), ...ofType })}
          </div>
          <TimingFields draft={draft} errors={errors} set={set} text={text} />
          <Field id="s-input" label="Input" error={errors.input} hint="JSON. Empty: no input.">
            <textarea
              id="s-input"
              class={`input area ${errors.input === undefined ? "" : "bad"}`}
              rows={Math.min(12, Math.max(3, draft.input.split("\n").length))}
              spellcheck={false}
              aria-invalid={errors.input !== undefined}
              aria-describedby="s-input-note"
              value={draft.input}
              onInput={(event) => set({ input: event.currentTarget.value })}
            />
          </Field>
          <details class="more">
            <summary class="link">More settings</summary>
            <div class="two-f">
              {text("priority", "Priority", { inputMode: "numeric", hint: "Higher runs first.", ...ofType })}
              {text("maxAttempts", "Attempts in all", { inputMode: "numeric", ...ofType })}
              <SelectField
                id="s-overlap"
                label="If the last run is not finished"
                error={errors.overlap}
                options={OVERLAPS}
                value={draft.overlap}
                onValue={(value) => set({ overlap: value as Draft["overlap"] })}
              />
              {text("jitter", "Jitter", {
                placeholder: "None",
                hint: "Each run starts up to this much later: 30s, 5m.",
              })}
              {text("startAt", "No slots before", { type: "datetime-local", hint: inYourZone })}
              {text("endAt", "No slots from", { type: "datetime-local", hint: inYourZone })}
              {text("user", "User", { placeholder: "None" })}
              {text("tags", "Tags", { hint: "Separated by commas.", ...ofType })}
            </div>
          </details>
        </div>
        <div class={`r ${preview.isLoading ? "is-old" : ""}`} aria-live="polite">
          <p class="label">Next five runs</p>
          {preview.runs.length === 0 && (preview.isLoading || Object.keys(preview.errors).length > 0) ? (
            <p class="t3">{preview.isLoading ? "…" : "Correct the timing to see them."}</p>
          ) : (
            <NextRuns runs={preview.runs} cron={draft.kind === "cron" ? draft.cron : null} timezone={draft.timezone} />
          )}
          {schedule?.origin === "code" && (
            <div class="note s-pending">
              <Icon name="info" />
              <span>
                Defined in code. What you change stays when the code is deployed again.{" "}
                {schedule.changed.length > 0 && (
                  <button type="button" class="link" onClick={() => setResetting(true)}>
                    Reset to code…
                  </button>
                )}
              </span>
            </div>
          )}
        </div>
      </div>
      {isResetting && schedule !== null && (
        <ResetSchedule schedule={schedule} onClose={() => setResetting(false)} onDone={onSaved} />
      )}
    </Dialog>
  );
}
