import type { AuditResult } from "holdfast/admin";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { api } from "../app/api.js";
import { date, dayAndClock, exact, localTime, number, seconds } from "../app/format.js";
import { addShortcuts } from "../app/keys.js";
import { jobHref, jobsHref, scheduleHref } from "../app/links.js";
import { now } from "../app/now.js";
import { useResource } from "../app/resource.js";
import { route, setQuery } from "../app/router.js";
import { Button } from "../ui/button.js";
import { Icon } from "../ui/icon.js";
import { Empty, Pending } from "../ui/page-states.js";
import { auditQuery, detailWords, iconOf, targetOf } from "./audit/entries.js";

const PAGE = 50;
const EVERY_MS = 15_000;
const FILTERS = ["actor", "action", "after", "before"] as const;

export default function Audit(): JSX.Element {
  const query = auditQuery(route.value.query);
  const key = JSON.stringify(query);
  const isFirst = query["cursor"] === undefined;
  const list = useResource(
    `audit ${key}`,
    () => api.audit.list({ ...query, limit: PAGE }),
    isFirst ? { every: EVERY_MS } : {},
  );
  const { value: data } = list.data;
  const isFiltered = FILTERS.some((name) => query[name] !== undefined);
  const actions = new Set(data?.entries.map(({ action }) => action));
  return (
    <>
      <Filters actions={[...actions].toSorted()} />
      <section class="card">
        {data === undefined ? (
          <Pending of={list} />
        ) : data.entries.length === 0 ? (
          <Empty icon="audit" title={isFiltered ? "No entry matches" : "No entries yet"}>
            {isFiltered ? (
              <Button onClick={() => setQuery({ actor: null, action: null, after: null, before: null, cursor: null })}>
                Show all
              </Button>
            ) : (
              <p>Changes made through the dashboard, the API or a command are recorded here.</p>
            )}
          </Empty>
        ) : (
          <>
            <Table entries={data.entries} />
            <footer class="card-f">
              <span>Changes made by your own code are not recorded.</span>
              <span class="row push">
                {!isFirst && (
                  <Button small onClick={() => setQuery({ cursor: null, open: null })}>
                    Newest
                  </Button>
                )}
                {data.cursor !== null && (
                  <Button small onClick={() => setQuery({ cursor: data.cursor, open: null })}>
                    Older
                  </Button>
                )}
              </span>
            </footer>
          </>
        )}
      </section>
    </>
  );
}

function Filters({ actions }: { actions: readonly string[] }): JSX.Element {
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => addShortcuts([{ key: "/", about: "Filter", run: () => first.current?.focus() }]), []);
  const { query } = route.value;
  const times = auditQuery(query);
  const set = (name: string, value: string): void =>
    setQuery({ [name]: value, cursor: null, open: null }, { replace: true });
  return (
    <form
      class="audit-filter"
      role="search"
      aria-label="Filter the audit log"
      onSubmit={(event) => event.preventDefault()}
    >
      <label class="field label">
        Who
        <input
          ref={first}
          class="input"
          spellcheck={false}
          autocomplete="off"
          placeholder="Anyone"
          value={query.get("actor") ?? ""}
          onChange={(event) => set("actor", event.currentTarget.value)}
        />
      </label>
      <label class="field label">
        Action
        <input
          class="input"
          list="audit-actions"
          spellcheck={false}
          autocomplete="off"
          placeholder="Such as jobs.retry"
          value={query.get("action") ?? ""}
          onChange={(event) => set("action", event.currentTarget.value)}
        />
      </label>
      <datalist id="audit-actions">
        {actions.map((action) => (
          <option key={action} value={action} />
        ))}
      </datalist>
      {(["after", "before"] as const).map((name) => (
        <label key={name} class="field label">
          {name === "after" ? "After" : "Before"}
          <input
            class="input"
            type="datetime-local"
            value={localTime(times[name] ?? null)}
            onChange={({ currentTarget: { value } }) => set(name, value && new Date(value).toISOString())}
          />
        </label>
      ))}
    </form>
  );
}

function Table({ entries }: { entries: readonly AuditResult[] }): JSX.Element {
  return (
    <div class="table-wrap">
      <table class="table">
        <thead class="hide-narrow">
          <tr>
            <th>When</th>
            <th>Who</th>
            <th>Action</th>
            <th class="fill">Target</th>
            <th class="num">Count</th>
            <th class="p2">Detail</th>
          </tr>
        </thead>
        <tbody>
          {entries.map((entry) => (
            <Entry key={entry.id} entry={entry} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Entry({ entry }: { entry: AuditResult }): JSX.Element {
  const { id, at, actor, action, target, count, detail } = entry;
  const isOpen = route.value.query.get("open") === id;
  const ms = Date.parse(at);
  const isToday = date(ms) === date(now.value);
  const when = isToday ? seconds(ms) : dayAndClock(ms, now.value);
  const words = detailWords(detail);
  return (
    <>
      <tr class={isOpen ? "cursor" : ""}>
        <td class="t2 wide-only">
          <time dateTime={at} title={exact(ms)}>
            {when}
          </time>
        </td>
        <td class="two-n lead-n">
          <bdi class="strong">{actor}</bdi>
          <button
            type="button"
            class="sub-n narrow-only expand"
            aria-expanded={isOpen}
            onClick={() => setQuery({ open: isOpen ? null : id })}
          >
            {when} · {action} {target !== null && `· ${target}`}
          </button>
        </td>
        <td class="wide-only">
          <button
            type="button"
            class="row expand"
            aria-expanded={isOpen}
            aria-label={`${action}: show the detail`}
            onClick={() => setQuery({ open: isOpen ? null : id })}
          >
            <Icon name={isOpen ? "down" : "chev"} />
            <Icon name={iconOf(action)} class="t3" />
            <code>{action}</code>
          </button>
        </td>
        <td class="fill wide-only" title={target?.slice(0, 2_000)}>
          <TargetLink entry={entry} />
        </td>
        <td class="num">{count === 0 ? "" : number(count)}</td>
        <td class="p2 t2 detail" dir="auto" title={words}>
          {words}
        </td>
      </tr>
      {isOpen && (
        <tr class="nest">
          <td colSpan={6}>
            <dl class="facts">
              <dt>When</dt>
              <dd>{exact(ms)}</dd>
              {target !== null && (
                <>
                  <dt>Target</dt>
                  <dd>
                    <code class="any" dir="auto">
                      {target.slice(0, 4_000)}
                    </code>
                  </dd>
                </>
              )}
            </dl>
            <pre class="codebox" tabIndex={0}>
              {(JSON.stringify(detail, null, 2) ?? "null").slice(0, 20_000)}
            </pre>
          </td>
        </tr>
      )}
    </>
  );
}

function TargetLink({ entry }: { entry: AuditResult }): JSX.Element {
  const text = <code class="t2">{entry.target?.slice(0, 300)}</code>;
  const target = targetOf(entry);
  if (target === null) return text;
  const href = { job: jobHref, schedule: scheduleHref, queue: (queue: string) => jobsHref({ queue }) }[target.kind](
    target.name,
  );
  return (
    <a href={href} dir="auto">
      {text}
    </a>
  );
}
