// The smaller lists of the Overview.
import type { AuditResult, ErrorGroupResult, ScheduleSummary, WorkerResult } from "holdfast/admin";
import type { ComponentChildren, JSX } from "preact";
import { coarse, dayAndClock, duration, number, short } from "../../app/format.js";
import { scheduleHref } from "../../app/links.js";
import { now } from "../../app/now.js";
import { isLive } from "../../app/workers.js";
import type { Resource } from "../../app/resource.js";
import type { Schedules } from "../../app/schedules.js";
import { hrefOf } from "../../app/router.js";
import { Meter } from "../../ui/meter.js";
import { Pending } from "../../ui/page-states.js";
import { Time } from "../../ui/time.js";
import { messageParts } from "../failures/placeholders.js";
import { changeWords } from "./change-words.js";
import { missingWorkers } from "./warnings.js";

interface CardProps {
  title: string;
  meta?: string | undefined;
  link: readonly [text: string, path: string];
  /** Shown until it is loaded. */
  of: Resource<unknown>;
  /** What is said without entries. */
  none: string;
  children: ComponentChildren;
  isEmpty: boolean;
}

function ListCard({ title, meta, link, of: resource, none, children, isEmpty }: CardProps): JSX.Element {
  return (
    <section class="card">
      <div class="card-h">
        <h2>{title}</h2>
        {meta !== undefined && <span class="meta">{meta}</span>}
        <a class="btn ghost sm push" href={hrefOf(link[1])}>
          {link[0]}
        </a>
      </div>
      {resource.data.value === undefined ? (
        <Pending of={resource} rows={4} />
      ) : isEmpty ? (
        <p class="none">{none}</p>
      ) : (
        <ul class="list">{children}</ul>
      )}
    </section>
  );
}

const DAY_MS = 24 * 3_600_000;
const SHOWN = 6;

export function FailuresCard({ groups }: { groups: Resource<{ groups: ErrorGroupResult[] }> }): JSX.Element {
  const recent = (groups.data.value?.groups ?? []).filter(({ lastAt }) => now.value - Date.parse(lastAt) < DAY_MS);
  const shown = recent.slice(0, SHOWN + 1);
  return (
    <ListCard
      title="Failures"
      meta={recent.length === 0 ? undefined : `${recent.length} groups, last 24 h`}
      link={["All failures", "/failures"]}
      of={groups}
      isEmpty={shown.length === 0}
      none="No attempt has failed in the last 24 hours."
    >
      {shown.map(({ fingerprint, name, message, example, type, count, lastAt }) => (
        <li key={fingerprint}>
          <span class="grow">
            <a
              class="cut mono blk"
              href={hrefOf("/failures", { open: fingerprint })}
              title={example.slice(0, 2_000)}
              dir="auto"
            >
              {name !== null && <span class="bad strong">{name}</span>}{" "}
              {messageParts(message, example).map(({ text, varies }, at) => (varies ? <i key={at}>{text}</i> : text))}
            </a>
            <small class="cut">
              {type !== null && <bdi>{type}</bdi>}
              {type !== null && " · "}
              <Time at={lastAt} />
            </small>
          </span>
          <span class="num strong nowrap cnt-w" title={`${number(count)} failed attempts`}>
            {short(count)}
          </span>
        </li>
      ))}
    </ListCard>
  );
}

export function SchedulesCard({ schedules }: { schedules: Resource<Schedules> }): JSX.Element {
  const { value: data } = schedules.data;
  const next = (data?.schedules ?? [])
    .filter(({ enabled, nextRunAt }) => enabled && nextRunAt !== null)
    .toSorted((one, other) => Date.parse(one.nextRunAt ?? "") - Date.parse(other.nextRunAt ?? ""))
    .slice(0, SHOWN);
  const count =
    data === undefined || data.schedules.length === 0 ? "" : ` ${data.schedules.length}${data.isAll ? "" : "+"}`;
  return (
    <ListCard
      title="Next schedules"
      link={[`All${count}`, "/schedules"]}
      of={schedules}
      isEmpty={next.length === 0}
      meta={data?.isAll === false ? `of the first ${number(data.schedules.length)} by name` : undefined}
      none={data?.schedules.length === 0 ? "No schedule is defined." : "No schedule is due to run."}
    >
      {next.map((schedule) => (
        <li key={schedule.name}>
          <span class="grow">
            <a class="strong cut blk" href={scheduleHref(schedule.name)} dir="auto">
              {schedule.name}
            </a>
            <small class="cut">{timingOf(schedule)}</small>
          </span>
          <span class="num nowrap">
            <Time at={schedule.nextRunAt ?? ""} />
            <small>{dayAndClock(Date.parse(schedule.nextRunAt ?? ""), now.value)}</small>
          </span>
        </li>
      ))}
    </ListCard>
  );
}

function timingOf({ cron, timezone, everyMs }: ScheduleSummary): string {
  if (cron !== null) return `${cron}${timezone === null ? "" : ` in ${timezone}`}`;
  return everyMs === null ? "" : `every ${duration(everyMs)}`;
}

export function WorkersCard({ workers }: { workers: Resource<{ workers: WorkerResult[] }> }): JSX.Element {
  const all = workers.data.value?.workers ?? [];
  const live = all.filter((worker) => isLive(worker, now.value));
  const missing = missingWorkers(all, now.value);
  const shown = [...missing.slice(0, 2), ...live].slice(0, SHOWN).toReversed();
  return (
    <ListCard
      title="Workers"
      meta={workers.data.value === undefined ? undefined : `${live.length} live`}
      link={["All workers", "/workers"]}
      of={workers}
      isEmpty={shown.length === 0}
      none="No live worker. Start one with holdfast worker, or hf.work() in your code."
    >
      {shown.map((worker) => {
        const { id, queues, running, concurrency, seenAt } = worker;
        const isMissing = !isLive(worker, now.value);
        return (
          <li key={id}>
            <span class={`dot s-${isMissing ? "dead" : "completed"}`} />
            <span class="grow">
              <span class="strong cut blk" title={id} dir="auto">
                {id}
              </span>
              <small class="cut" dir="auto">
                {isMissing
                  ? `no heartbeat for ${coarse(now.value - Date.parse(seenAt))}`
                  : (queues?.join(", ") ?? "all queues")}
              </small>
            </span>
            {isMissing ? (
              <span class="num bad strong">missing</span>
            ) : (
              <>
                <Meter
                  max={concurrency}
                  parts={[{ state: "running", value: running }]}
                  label={`${running} of ${concurrency}`}
                />
                <span class="num nowrap t2 cnt-w">
                  {running} / {concurrency}
                </span>
              </>
            )}
          </li>
        );
      })}
    </ListCard>
  );
}

/** For admins. */
export function ChangesCard({ audit }: { audit: Resource<{ entries: AuditResult[] }> }): JSX.Element {
  const entries = audit.data.value?.entries ?? [];
  return (
    <ListCard
      title="Recent changes"
      link={["Audit log", "/audit"]}
      of={audit}
      isEmpty={entries.length === 0}
      none="No one has changed anything yet."
    >
      {entries.slice(0, SHOWN).map((entry) => {
        const { what, about } = changeWords(entry);
        return (
          <li key={entry.id}>
            <span class="grow">
              <span class="cut blk">
                <bdi class="strong">{entry.actor}</bdi> {what}
              </span>
              {about !== "" && (
                <small class="cut" dir="auto">
                  {about}
                </small>
              )}
            </span>
            <Time class="t3 nowrap" at={entry.at} />
          </li>
        );
      })}
    </ListCard>
  );
}
