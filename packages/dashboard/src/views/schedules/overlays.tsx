import type { ScheduleResult } from "holdfast/admin";
import type { JSX } from "preact";
import { may } from "../../app/api.js";
import { useResource } from "../../app/resource.js";
import { route, setQuery } from "../../app/router.js";
import { Dialog } from "../../ui/dialog.js";
import { Pending } from "../../ui/page-states.js";
import { loadSchedule, type LoadedSchedule } from "./load-schedule.js";
import { DeleteSchedule, ResetSchedule } from "./schedule-actions.js";
import { ScheduleDialog } from "./schedule-dialog.js";

type Open = "edit" | "delete" | "reset";
const NAMES = ["new", "edit", "delete", "reset"] as const;

export function openNew(): void {
  setQuery({ new: "1" });
}
export function openFor(name: string, what: Open): void {
  setQuery({ [what]: name });
}
function close(): void {
  setQuery(Object.fromEntries(NAMES.map((name) => [name, null])));
}

interface OverlaysProps {
  onSaved: (schedule: ScheduleResult) => void;
  onDeleted: (name: string) => void;
}

/** The dialogs of schedules. Which one is open is in the URL. */
export function ScheduleOverlays({ onSaved, onDeleted }: OverlaysProps): JSX.Element | null {
  const { query } = route.value;
  if (!may("operator")) return null;
  const saved = (schedule: ScheduleResult): void => {
    onSaved(schedule);
    close();
  };
  const [edited, deleted, reset] = [query.get("edit"), query.get("delete"), query.get("reset")];
  if (deleted !== null) return <DeleteSchedule name={deleted} onClose={close} onDone={() => onDeleted(deleted)} />;
  if (reset !== null)
    return (
      <Loaded name={reset} show={(schedule) => <ResetSchedule schedule={schedule} onClose={close} onDone={saved} />} />
    );
  if (edited !== null) {
    const show = (schedule: LoadedSchedule): JSX.Element => (
      <ScheduleDialog
        schedule={schedule}
        onClose={close}
        onSaved={saved}
        onDelete={() => setQuery({ edit: null, delete: edited })}
      />
    );
    return <Loaded name={edited} show={show} />;
  }
  return query.has("new") ? <ScheduleDialog schedule={null} onClose={close} onSaved={saved} /> : null;
}

function Loaded({ name, show }: { name: string; show: (schedule: LoadedSchedule) => JSX.Element }): JSX.Element {
  const schedule = useResource(`schedule to edit ${name}`, () => loadSchedule(name));
  // Values of an earlier visit may be old.
  if (schedule.loading.value || schedule.data.value === undefined) {
    return schedule.error.value === undefined ? (
      <></>
    ) : (
      <Dialog title={name} onClose={close}>
        <Pending of={schedule} />
      </Dialog>
    );
  }
  return show(schedule.data.value);
}
