import type { TimingBody } from "holdfast/admin";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { AdminError, api, messageOf } from "../../app/api.js";
import { Icon } from "../../ui/icon.js";
import { clockNotes } from "./clock-notes.js";
import { fieldErrors, type FieldErrors } from "./form.js";
import { isZone, viewerZone, wallAt, zoneLabel } from "./zones.js";

export interface Preview {
  runs: readonly number[];
  errors: FieldErrors;
  isLoading: boolean;
}

const DELAY_MS = 200;

/** The next five runs of a timing that is being edited. Only the result of the latest timing is kept. */
export function usePreview(timing: TimingBody): Preview {
  const [preview, setPreview] = useState<Preview>({ runs: [], errors: {}, isLoading: true });
  const key = JSON.stringify(timing);
  useEffect(() => {
    let isLatest = true;
    setPreview((before) => ({ ...before, isLoading: true }));
    const load = async (): Promise<void> => {
      const next = await read(timing);
      if (isLatest) setPreview(next);
    };
    const timer = setTimeout(() => void load(), DELAY_MS);
    return () => {
      isLatest = false;
      clearTimeout(timer);
    };
  }, [key]);
  return preview;
}

async function read(timing: TimingBody): Promise<Preview> {
  try {
    const { runs } = await api.schedules.preview({ ...timing, count: 5 });
    return { runs: runs.map((run) => Date.parse(run)), errors: {}, isLoading: false };
  } catch (error) {
    const errors =
      error instanceof AdminError && error.status === 400
        ? fieldErrors(error.issues, error.code, error.message)
        : { form: messageOf(error) };
    return { runs: [], errors, isLoading: false };
  }
}

/** The runs in the zone of the schedule and in the viewer's, with notes on changes of clocks. */
export function NextRuns({
  runs,
  cron,
  timezone,
}: {
  runs: readonly number[];
  cron: string | null;
  timezone: string;
}): JSX.Element {
  const own = viewerZone();
  const zone = isZone(timezone) ? timezone : own;
  const isOther = zone !== own;
  const notes = cron === null ? [] : clockNotes(cron, zone, runs);
  if (runs.length === 0) return <p class="t3">No runs are left.</p>;
  return (
    <>
      <table class="runs-t">
        <thead>
          <tr>
            <th>Day</th>
            <th class="num">{isOther ? zoneLabel(zone) : `${zoneLabel(zone)} (you)`}</th>
            {isOther && <th class="num">{zoneLabel(own)} (you)</th>}
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => {
            const [there, here] = [wallAt(zone, run), wallAt(own, run)];
            return (
              <tr key={run}>
                <td>{there.day}</td>
                <td class={`num mono ${notes.some((note) => note.run === run) ? "warn strong" : ""}`}>{there.time}</td>
                {isOther && (
                  <td class="num mono t3">
                    {here.day === there.day ? "" : `${here.day.slice(0, 3)} `}
                    {here.time}
                  </td>
                )}
              </tr>
            );
          })}
        </tbody>
      </table>
      {notes.map(({ run, text }) => (
        <div key={run} class="note s-failed">
          <Icon name="clock" />
          <span>{text}</span>
        </div>
      ))}
    </>
  );
}
