import type { ErrorGroupResult } from "holdfast/admin";
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, may } from "../app/api.js";
import { plural, short } from "../app/format.js";
import { jobsHref } from "../app/links.js";
import { stats } from "../app/live.js";
import { now } from "../app/now.js";
import { useResource } from "../app/resource.js";
import { route, setQuery } from "../app/router.js";
import { Button } from "../ui/button.js";
import { Empty, Pending } from "../ui/page-states.js";
import { chosenAction, closeAction, openAction } from "./failures/actions.js";
import { Group } from "./failures/group.js";
import { inRange, orderOf, readFilter, RANGES } from "./failures/filter.js";
import { BulkDialog } from "./jobs/bulk-dialog.js";
import { showRunning } from "./jobs/operations.js";
import { OperationsPanel } from "./jobs/operations-panel.js";

const EVERY_MS = 10_000;
/** Each shown group is counted. */
const SHOWN = 25;
const MAX_GROUPS = 1_000;

export default function Failures(): JSX.Element {
  const { type, range, order, open, wants } = readFilter(route.value.query);
  const [limit, setLimit] = useState(SHOWN);
  const groups = useResource(
    `failures ${type ?? ""}`,
    () => api.errors.list({ limit: MAX_GROUPS, trend: true, ...(type !== null && { type }) }),
    {
      every: EVERY_MS,
    },
  );
  const { value: data } = groups.data;
  const found = useMemo(() => inRange(data?.groups ?? [], range, now.peek()), [data, range]);
  const shown = useMemo(() => orderOf(found, order), [found, order]);
  useEffect(() => {
    if (may("viewer")) void showRunning();
    return closeAction;
  }, []);
  useEffect(() => {
    // A link from the Overview asks for the dialog.
    if (open === null || wants !== "retry" || !may("operator")) return;
    openAction({ fingerprint: open }, "retry");
    setQuery({ do: null }, { replace: true });
  }, [open, wants]);
  const isOpenAway = open !== null && !shown.slice(0, limit).some(({ fingerprint }) => fingerprint === open);
  const rows = [
    ...shown.slice(0, limit),
    ...(isOpenAway ? (data?.groups ?? []).filter(({ fingerprint }) => fingerprint === open) : []),
  ];
  return (
    <>
      <div class="subbar">
        <div class="seg" role="group" aria-label="Last failed in">
          {Object.entries(RANGES).map(([name, { label }]) => (
            <button
              key={name}
              type="button"
              aria-pressed={name === range}
              onClick={() => setQuery({ range: name === "30d" ? null : name })}
            >
              {label}
            </button>
          ))}
        </div>
        <TypeFilter groups={data?.groups} type={type} />
        <Totals />
        <span class="t3 wide-only">
          {data !== undefined &&
            `${plural(found.length, "group")}. Numbers, ids and addresses in messages are ignored when grouping.`}
        </span>
        <span class="push row">
          <Button
            small
            icon="sort"
            onClick={() => setQuery({ order: order === "last" ? "attempts" : null })}
            title="Change the order"
          >
            {order === "last" ? "Latest first" : "Most attempts first"}
          </Button>
        </span>
      </div>
      <section class="card clip" aria-labelledby="failures-groups">
        <h2 class="sr" id="failures-groups">
          Groups of errors
        </h2>
        {data === undefined ? (
          <Pending of={groups} />
        ) : rows.length === 0 ? (
          <None hasOthers={data.groups.length > 0} type={type} />
        ) : (
          <div role="list">
            <div class="fg fg-h" aria-hidden="true">
              <span />
              <span>Error</span>
              <span class="f-trend">Last 24 h</span>
              <span class="num f-count">Failed</span>
              <span class="num">Jobs now</span>
              <span class="num f-last">Last</span>
              <span class="num f-first f-last">First</span>
              <span class="f-act" />
            </div>
            {rows.map((group) => (
              <Group
                key={group.fingerprint}
                group={group}
                isOpen={group.fingerprint === open}
                onToggle={() =>
                  setQuery({ open: group.fingerprint === open ? null : group.fingerprint, do: null }, { replace: true })
                }
                onRetry={() => openAction(group, "retry")}
              />
            ))}
          </div>
        )}
        {shown.length > limit && (
          <div class="card-f">
            {limit} of {shown.length} groups
            <Button small class="push" onClick={() => setLimit(limit + SHOWN)}>
              Show more
            </Button>
          </div>
        )}
      </section>
      {chosenAction.value !== null && (
        <BulkDialog {...chosenAction.value} onClose={closeAction} onStarted={closeAction} />
      )}
      <OperationsPanel />
    </>
  );
}

function Totals(): JSX.Element | null {
  const { value: current } = stats;
  if (current === null) return null;
  const { dead, failed } = current.states;
  return (
    <span class="f-totals">
      <a href={jobsHref({ state: "dead" })}>
        Dead <b class={dead > 0 ? "bad" : "t3"}>{short(dead)}</b>
      </a>
      <a href={jobsHref({ state: "failed" })}>
        Retrying <b class="t3">{short(failed)}</b>
      </a>
    </span>
  );
}

function TypeFilter({
  groups,
  type,
}: {
  groups: readonly ErrorGroupResult[] | undefined;
  type: string | null;
}): JSX.Element {
  // With a type, only its groups are loaded: the other names are those of the counts.
  const types = new Set([...(type === null ? [] : [type]), ...(groups ?? []).flatMap((group) => group.type ?? [])]);
  for (const [name, { dead, failed }] of Object.entries(stats.value?.types ?? {}))
    if (dead + failed > 0) types.add(name);
  const names = [...types].toSorted();
  return (
    <select
      class="input f-type"
      aria-label="Job type"
      value={type ?? ""}
      onChange={(event) => setQuery({ type: event.currentTarget.value, open: null })}
    >
      <option value="">All types</option>
      {names.map((name) => (
        <option key={name} value={name}>
          {name.length > 80 ? `${name.slice(0, 80)}…` : name}
        </option>
      ))}
    </select>
  );
}

function None({ hasOthers, type }: { hasOthers: boolean; type: string | null }): JSX.Element {
  if (!hasOthers && type === null) {
    return (
      <Empty icon="check" title="No attempt has failed">
        <p>Failed attempts with the same error appear here as one group.</p>
      </Empty>
    );
  }
  return (
    <Empty icon="check" title={hasOthers ? "No attempt failed in this time" : "No attempt of this type has failed"}>
      <Button onClick={() => setQuery({ range: null, type: null })}>Show all groups</Button>
    </Empty>
  );
}
