import type { JobSummary, ScheduleResult } from "holdfast/admin";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { AdminError, api, may } from "../app/api.js";
import { dayAndClock, duration, exact, shortId } from "../app/format.js";
import { jobHref, jobsHref } from "../app/links.js";
import { follow } from "../app/live.js";
import { now } from "../app/now.js";
import { useResource } from "../app/resource.js";
import { go, hrefOf, route } from "../app/router.js";
import { Button } from "../ui/button.js";
import { Empty, Pending } from "../ui/page-states.js";
import { StateLabel } from "../ui/state.js";
import { Time } from "../ui/time.js";
import { everyText, timingWords } from "./schedules/cron-words.js";
import { openFor, ScheduleOverlays } from "./schedules/overlays.js";
import { loadSchedule, type LoadedSchedule } from "./schedules/load-schedule.js";
import { NextRuns } from "./schedules/preview.js";
import { EnabledToggle, Origin, runNow } from "./schedules/schedule-actions.js";
import { reasonWords } from "./schedules/slot-words.js";
import { viewerZone } from "./schedules/zones.js";

const EVERY_MS = 15_000;
const RELOAD_MS = 1_000;

interface Loaded {
  schedule: LoadedSchedule;
  runs: readonly number[];
  /** The jobs of its slots that still exist, and its newest ones. */
  jobs: readonly JobSummary[];
}

async function load(name: string): Promise<Loaded> {
  const [schedule, { runs }, recent] = await Promise.all([
    loadSchedule(name),
    api.schedules.next({ name, count: 5 }),
    api.jobs.list({ schedule: name, limit: 20 }),
  ]);
  const known = new Set(recent.jobs.map(({ id }) => id));
  const others = schedule.slots.flatMap(({ job }) => (job === null || known.has(job) ? [] : [job]));
  const older = others.length === 0 ? [] : (await api.jobs.list({ id: others.slice(0, 200), limit: 200 })).jobs;
  return { schedule, runs: runs.map((run) => Date.parse(run)), jobs: [...recent.jobs, ...older] };
}

export default function Schedule(): JSX.Element {
  const name = route.value.parts[1] ?? "";
  const one = useResource(`schedule ${name}`, () => load(name), { every: EVERY_MS });
  useEffect(() => follow(({ schedule }) => schedule?.name === name, one, RELOAD_MS), [one, name]);
  const { value: data } = one.data;
  const { value: error } = one.error;
  if (error instanceof AdminError && error.status === 404) {
    return (
      <Empty icon="schedules" title="This schedule does not exist">
        <p>It may have been deleted.</p>
        <a class="btn" href={hrefOf("/schedules")}>
          All schedules
        </a>
      </Empty>
    );
  }
  if (data === undefined) return <Pending of={one} />;
  const { schedule } = data;
  return (
    <>
      <Head schedule={schedule} onChange={() => void one.reload()} />
      <div class="cols schedule-cols">
        <Slots {...data} />
        <div class="stack">
          <section class="card">
            <header class="card-h">
              <h2>Next runs</h2>
            </header>
            <div class="card-b stack tightest">
              {schedule.enabled ? (
                <NextRuns runs={data.runs} cron={schedule.cron} timezone={schedule.timezone ?? viewerZone()} />
              ) : (
                <p class="t3">None: the schedule is disabled.</p>
              )}
            </div>
          </section>
          <Settings schedule={schedule} />
        </div>
      </div>
      <ScheduleOverlays
        onSaved={() => void one.reload()}
        onDeleted={() => go(hrefOf("/schedules"), { replace: true })}
      />
    </>
  );
}

function Head({ schedule, onChange }: { schedule: ScheduleResult; onChange: () => void }): JSX.Element {
  const { name, origin, changed } = schedule;
  return (
    <div class="schedule-h">
      <div class="row">
        <EnabledToggle schedule={schedule} onChange={onChange} />
        <p class="strong">{timingWords(schedule)}</p>
        <Origin schedule={schedule} />
      </div>
      {may("operator") && (
        <div class="row wrap push">
          {origin === "code" && changed.length > 0 && (
            <Button icon="retry" onClick={() => openFor(name, "reset")}>
              Reset to code…
            </Button>
          )}
          <Button kind="ghost" class="danger" icon="trash" onClick={() => openFor(name, "delete")}>
            Delete…
          </Button>
          <Button icon="edit" onClick={() => openFor(name, "edit")}>
            Edit…
          </Button>
          <Button kind="primary" icon="play" onClick={() => runNow(name)}>
            Run now
          </Button>
        </div>
      )}
    </div>
  );
}

function Slots({ schedule, jobs }: Loaded): JSX.Element {
  const byId = new Map(jobs.map((job) => [job.id, job]));
  return (
    <section class="card">
      <header class="card-h">
        <h2>Slots</h2>
        {schedule.slots.length > 0 && <span class="meta">the last {schedule.slots.length}, newest first</span>}
        <a class="link push" href={jobsHref({ schedule: schedule.name })}>
          All jobs
        </a>
      </header>
      {schedule.slots.length === 0 ? (
        <Empty icon="clock" title="No slot so far" />
      ) : (
        <div class="table-wrap">
          <table class="table">
            <thead class="hide-narrow">
              <tr>
                <th>Slot</th>
                <th>Outcome</th>
                <th class="p2">Job</th>
                <th class="num p2">Attempts</th>
                <th class="num p2">Took</th>
                <th class="fill">Note</th>
              </tr>
            </thead>
            <tbody>
              {schedule.slots.map((slot) => (
                <SlotRow key={`${slot.slot} ${slot.job} ${slot.at}`} {...slot} found={byId.get(slot.job ?? "")} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

type SlotRowProps = ScheduleResult["slots"][number] & { found: JobSummary | undefined };

function SlotRow({ slot, through, job, reason, found }: SlotRowProps): JSX.Element {
  const at = Date.parse(slot);
  const why = reasonWords(reason);
  const note = found?.error?.message ?? why ?? "";
  return (
    <tr>
      <td title={exact(at)}>
        {dayAndClock(at, now.value)}
        {through !== null && <span class="t3"> to {dayAndClock(Date.parse(through), now.value)}</span>}
      </td>
      <td>
        {found !== undefined ? (
          <a href={jobHref(found.id)}>
            <StateLabel state={found.state} />
          </a>
        ) : job !== null ? (
          <span class="t3" title="The job was deleted">
            deleted
          </span>
        ) : (
          <span class="state s-cancelled">skipped</span>
        )}
      </td>
      <td class="p2">
        {job !== null && (
          <a class="mono t3" href={jobHref(job)} title={job}>
            {shortId(job)}
          </a>
        )}
      </td>
      <td class="num p2 t2">{found !== undefined && `${found.attempt} of ${found.maxAttempts}`}</td>
      <td class="num p2 t2">{took(found)}</td>
      <td class={`fill ${found?.state === "dead" ? "bad" : "t2"}`} dir="auto" title={note.slice(0, 2_000)}>
        {note.slice(0, 300)}
      </td>
    </tr>
  );
}

function took(job: JobSummary | undefined): string {
  if (job?.startedAt == null || job.finishedAt === null) return "";
  return duration(Date.parse(job.finishedAt) - Date.parse(job.startedAt));
}

const MISSED: Readonly<Record<string, string>> = { latest: "Run the latest once", skip: "Skip them" };

function Settings({ schedule }: { schedule: LoadedSchedule }): JSX.Element {
  const { cron, everyMs, timezone, catchUp, overlap, jitterMs, startAt, endAt, user, tags, inputText: text } = schedule;
  return (
    <section class="card">
      <header class="card-h">
        <h2>Settings</h2>
      </header>
      <div class="card-b stack tightest">
        <dl class="facts">
          <dt>Timing</dt>
          <dd>
            <code>{cron ?? `every ${everyText(everyMs ?? 0)}`}</code>
          </dd>
          {timezone !== null && (
            <>
              <dt>Time zone</dt>
              <dd>{timezone}</dd>
            </>
          )}
          <dt>Job type</dt>
          <dd>
            <a class="link cut" dir="auto" title={schedule.type} href={jobsHref({ type: schedule.type })}>
              {schedule.type}
            </a>
          </dd>
          <dt>Queue</dt>
          <dd>
            <bdi class="cut">{schedule.queue}</bdi>
          </dd>
          <dt>Priority</dt>
          <dd>{schedule.priority}</dd>
          <dt>Attempts in all</dt>
          <dd>{schedule.maxAttempts}</dd>
          <dt>Missed slots</dt>
          <dd>{typeof catchUp === "object" ? `Run up to ${catchUp.all} of them` : MISSED[catchUp]}</dd>
          <dt>Overlap</dt>
          <dd>{overlap === "allow" ? "Run anyway" : "Skip the slot"}</dd>
          {jitterMs > 0 && (
            <>
              <dt>Jitter</dt>
              <dd>up to {duration(jitterMs)}</dd>
            </>
          )}
          {startAt !== null && (
            <>
              <dt>No slots before</dt>
              <dd>{exact(Date.parse(startAt))}</dd>
            </>
          )}
          {endAt !== null && (
            <>
              <dt>No slots from</dt>
              <dd>{exact(Date.parse(endAt))}</dd>
            </>
          )}
          {user !== null && (
            <>
              <dt>User</dt>
              <dd>
                <bdi class="cut">{user}</bdi>
              </dd>
            </>
          )}
          {tags.length > 0 && (
            <>
              <dt>Tags</dt>
              <dd>
                {tags.map((tag) => (
                  <bdi key={tag} class="tag">
                    {tag}
                  </bdi>
                ))}
              </dd>
            </>
          )}
          <dt>Changed</dt>
          <dd>
            <Time at={schedule.updatedAt} />
          </dd>
        </dl>
        {text !== "" && text !== "{}" && (
          <div class="field">
            <span class="label">Input</span>
            <pre class="codebox" tabIndex={0}>
              {text.length > 20_000 ? `${text.slice(0, 20_000)}…` : text}
            </pre>
          </div>
        )}
      </div>
    </section>
  );
}
