import type { ScheduleResult, ScheduleSummary } from "holdfast/admin";
import type { JSX } from "preact";
import { api, may } from "../../app/api.js";
import { jobHref } from "../../app/links.js";
import { go } from "../../app/router.js";
import { act, toast } from "../../app/toasts.js";
import { Confirm } from "../../ui/confirm.js";
import { Toggle } from "../../ui/toggle.js";

interface ToggleProps {
  schedule: ScheduleSummary;
  onChange: (schedule: ScheduleResult) => void;
}

/** Whether the schedule runs. For those who may not change it, a word. */
export function EnabledToggle({ schedule, onChange }: ToggleProps): JSX.Element {
  const { name, enabled } = schedule;
  if (!may("operator")) return <span class={enabled ? "t2" : "t3"}>{enabled ? "on" : "off"}</span>;
  return <Toggle on={enabled} label={`${name} is enabled`} onToggle={(on) => setEnabled(name, on, onChange)} />;
}

async function setEnabled(name: string, on: boolean, onChange: ToggleProps["onChange"], isUndo = false): Promise<void> {
  await act(
    async () => onChange(await (on ? api.schedules.enable({ name }) : api.schedules.disable({ name }))),
    on ? `Enabled ${name}, from its next slot.` : `Disabled ${name}.`,
    isUndo ? undefined : () => void setEnabled(name, !on, onChange, true),
  );
}

/** Enqueues a job of it now. */
export async function runNow(name: string): Promise<void> {
  await act(async () => {
    const { id, duplicate } = await api.schedules.run({ name });
    toast(
      duplicate ? `The last run of ${name} is not finished, so no job was enqueued.` : `Enqueued a job of ${name}.`,
      {
        action: { label: "Open the job", run: () => go(jobHref(id)) },
      },
    );
  });
}

export function DeleteSchedule({
  name,
  onClose,
  onDone,
}: {
  name: string;
  onClose: () => void;
  onDone: () => void;
}): JSX.Element {
  return (
    <Confirm
      title="Delete schedule"
      action="Delete schedule"
      danger
      typed={name}
      onClose={onClose}
      onConfirm={async () => {
        const isDone = await act(() => api.schedules.remove({ name }), `Deleted ${name}.`);
        if (isDone) onDone();
        return isDone;
      }}
    >
      <p>
        No more jobs of <b dir="auto">{name}</b> are enqueued, and the record of its slots is deleted. Its jobs stay.
      </p>
      <p class="t2">If it is defined in code, the next start of the program creates it again. Disable it instead.</p>
    </Confirm>
  );
}

interface ResetProps {
  schedule: ScheduleSummary;
  onClose: () => void;
  onDone: (schedule: ScheduleResult) => void;
}

export function ResetSchedule({ schedule: { name, changed }, onClose, onDone }: ResetProps): JSX.Element {
  return (
    <Confirm
      title="Reset to the definition in code"
      action="Reset schedule"
      onClose={onClose}
      onConfirm={() =>
        act(async () => onDone(await api.schedules.reset({ name })), `Reset ${name} to its definition in code.`)
      }
    >
      <p>
        These settings of <b dir="auto">{name}</b> get back the values that the code has: {fieldNames(changed)}.
      </p>
    </Confirm>
  );
}

const FIELDS: Readonly<Record<string, string>> = {
  everyMs: "interval",
  cron: "pattern",
  timezone: "time zone",
  startAt: "start",
  endAt: "end",
  jitterMs: "jitter",
  catchUp: "missed slots",
  maxAttempts: "attempts",
  type: "job type",
};

function fieldNames(fields: readonly string[]): string {
  return fields.map((field) => FIELDS[field] ?? field).join(", ");
}

/** Where it was defined, and which settings were changed since. */
export function Origin({ schedule }: { schedule: ScheduleSummary }): JSX.Element {
  if (schedule.origin === "runtime") {
    return (
      <span class="t3" title="Created through the dashboard, the API or a command">
        run time
      </span>
    );
  }
  if (schedule.changed.length === 0) return <span class="t3">code</span>;
  return (
    <span class="tag" title={`Changed since: ${fieldNames(schedule.changed)}`}>
      code, changed
    </span>
  );
}
