import type { ScheduleSummary } from "holdfast/admin";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { may } from "../app/api.js";
import { clockBeside, number, plural } from "../app/format.js";
import { addShortcuts } from "../app/keys.js";
import { scheduleHref } from "../app/links.js";
import { follow } from "../app/live.js";
import { now } from "../app/now.js";
import { useResource, type Resource } from "../app/resource.js";
import { go, route, setQuery } from "../app/router.js";
import { isCut, loadSchedules } from "../app/schedules.js";
import { Button } from "../ui/button.js";
import { Icon } from "../ui/icon.js";
import { Empty, Pending } from "../ui/page-states.js";
import { Menu, type MenuItem } from "../ui/menu.js";
import { Time } from "../ui/time.js";
import { timingWords, everyText } from "./schedules/cron-words.js";
import { openFor, openNew, ScheduleOverlays } from "./schedules/overlays.js";
import { isNewRun, LastRun, RunBars, useRuns } from "./schedules/runs.js";
import { EnabledToggle, Origin, runNow } from "./schedules/schedule-actions.js";
import { viewerZone } from "./schedules/zones.js";

const EVERY_MS = 15_000;
const RELOAD_MS = 3_000;

export default function Schedules(): JSX.Element {
  const q = route.value.query.get("q") ?? "";
  const search = isCut.value ? q.trim() : "";
  const list = useResource(`schedules ${search}`, (client) => loadSchedules(client, search), { every: EVERY_MS });
  const filter = useRef<HTMLInputElement>(null);
  useEffect(() => addShortcuts([{ key: "/", about: "Filter", run: () => filter.current?.focus() }]), []);
  // Its next run is another one now.
  useEffect(() => follow(isNewRun, list, RELOAD_MS), [list]);
  const { value: data } = list.data;
  const shown = data?.schedules.filter((schedule) => matches(schedule, q));
  const off = data?.schedules.filter(({ enabled }) => !enabled).length ?? 0;
  return (
    <>
      <div class="subbar">
        <label class="filter small">
          <Icon name="search" />
          <input
            ref={filter}
            type="search"
            aria-label="Filter schedules"
            placeholder="Filter schedules"
            value={q}
            onInput={(event) => setQuery({ q: event.currentTarget.value }, { replace: true })}
          />
          {q === "" && <kbd class="kbd">/</kbd>}
        </label>
        {data !== undefined && (
          <span class="t3 wide-only">
            {data.isAll
              ? plural(data.schedules.length, "schedule")
              : `The first ${number(data.schedules.length)} schedules; the filter finds the others`}
            {off > 0 && ` · ${number(off)} off`} · times in {viewerZone()} (yours)
          </span>
        )}
        {may("operator") && (
          <Button class="push" kind="primary" icon="plus" onClick={openNew}>
            New schedule
          </Button>
        )}
      </div>
      <section class="card">
        {shown === undefined || data === undefined ? (
          <Pending of={list} />
        ) : data.schedules.length === 0 && search === "" ? (
          <Empty icon="schedules" title="No schedules yet">
            <p>Define them in code with hf.schedule(), or create one here.</p>
          </Empty>
        ) : shown.length === 0 ? (
          <Empty icon="search" title="No schedule matches">
            <Button onClick={() => setQuery({ q: null })}>Show all</Button>
          </Empty>
        ) : (
          <Table schedules={shown} list={list} />
        )}
      </section>
      <ScheduleOverlays onSaved={() => void list.reload()} onDeleted={() => void list.reload()} />
    </>
  );
}

/** All words must occur. */
function matches({ name, type, queue, tags, cron, timezone }: ScheduleSummary, q: string): boolean {
  const text = [name, type, queue, cron, timezone, ...tags].join("\n").toLowerCase();
  return q
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function Table({ schedules, list }: { schedules: readonly ScheduleSummary[]; list: Resource<unknown> }): JSX.Element {
  return (
    <div class="table-wrap">
      <table class="table roomy schedules-t">
        <thead class="hide-narrow">
          <tr>
            <th>On</th>
            <th>Schedule</th>
            <th class="p2">Timing</th>
            <th class="p3 p4">Job type</th>
            <th class="p3">Last 20 runs</th>
            <th class="p2">Last run</th>
            <th class="num">Next run</th>
            <th class="p3 p4">Defined in</th>
            <th class="act">
              <span class="sr">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {schedules.map((schedule) => (
            <Row key={schedule.name} schedule={schedule} list={list} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ schedule, list }: { schedule: ScheduleSummary; list: Resource<unknown> }): JSX.Element {
  const { name, type, cron, everyMs, timezone, enabled, nextRunAt, origin, changed } = schedule;
  const { runs, ref } = useRuns(name);
  const [last] = runs.value ?? [];
  const words = timingWords(schedule);
  const items: MenuItem[] = [
    { label: "Open", icon: "chev", run: () => go(scheduleHref(name)) },
    { label: "Run now", icon: "play", run: () => runNow(name) },
    { label: "Edit…", icon: "edit", run: () => openFor(name, "edit") },
    ...(origin === "code" && changed.length > 0
      ? [{ label: "Reset to code…", icon: "retry", run: () => openFor(name, "reset") } as const]
      : []),
    { label: "Delete…", icon: "trash", danger: true, run: () => openFor(name, "delete") },
  ];
  return (
    <tr ref={(element) => void (ref.current = element)} class={enabled ? "" : "is-off"}>
      <td>
        <EnabledToggle schedule={schedule} onChange={() => void list.reload()} />
      </td>
      <td class="two two-n name">
        <a class="strong cut" dir="auto" title={name} href={scheduleHref(name)}>
          {name}
        </a>
        <small title={words}>{words}</small>
        <span class="sub-n narrow-only">
          {last === undefined ? "" : `${last.state} · `}
          {words}
        </span>
      </td>
      <td class="two p2 timing">
        <code class="cut" title={cron ?? undefined}>
          {cron ?? `every ${everyText(everyMs ?? 0)}`}
        </code>
        <small>{cron === null ? "anchored" : timezone}</small>
      </td>
      <td class="p3 p4 t2">
        <span class="cut type" dir="auto" title={type}>
          {type}
        </span>
      </td>
      <td class="p3 bars">
        {runs.value === undefined ? (
          <span class="skel" />
        ) : runs.value.length === 0 ? (
          <span class="t3">none yet</span>
        ) : (
          <RunBars runs={runs.value} />
        )}
      </td>
      <td class="p2 two last">
        {last !== undefined ? (
          <LastRun run={last} />
        ) : (
          <span class="t3">{runs.value === undefined ? "" : "never"}</span>
        )}
      </td>
      <td class={`num two next ${enabled && nextRunAt !== null ? "" : "t3"}`}>
        {!enabled ? (
          "off"
        ) : nextRunAt === null ? (
          "none left"
        ) : (
          <>
            <Time at={nextRunAt} />
            <small>{clockBeside(Date.parse(nextRunAt), now.value)}</small>
          </>
        )}
      </td>
      <td class="p3 p4">
        <Origin schedule={schedule} />
      </td>
      <td class="act">
        {may("operator") && (
          <span class="row">
            <Button small kind="ghost" class="wide-only" onClick={() => runNow(name)}>
              Run now
            </Button>
            <Menu label={`Actions for ${name}`} items={items} />
          </span>
        )}
      </td>
    </tr>
  );
}
