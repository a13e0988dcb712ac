import type { CountResult, ErrorGroupResult } from "holdfast/admin";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { api, may } from "../../app/api.js";
import { countText, dayAndClock, number } from "../../app/format.js";
import { jobsHref } from "../../app/links.js";
import { stats } from "../../app/live.js";
import { now } from "../../app/now.js";
import { useResource, type Resource } from "../../app/resource.js";
import { Button } from "../../ui/button.js";
import { Icon } from "../../ui/icon.js";
import { Spark } from "../../ui/spark.js";
import { Time } from "../../ui/time.js";
import { endedOperations } from "../jobs/operations.js";
import { Detail } from "./detail.js";
import { Message } from "./message.js";

interface GroupProps {
  group: ErrorGroupResult;
  isOpen: boolean;
  onToggle: () => void;
  onRetry: () => void;
}

/** One step of the store. */
const AT_MOST = 1_000;
const COUNT_MS = 60_000;
const NOTHING: CountResult = { count: 0, exact: true };

/** How many jobs are in a state with an error. Not asked if the type has none in this state. */
function useJobCount({ fingerprint, type }: ErrorGroupResult, state: "dead" | "failed"): Resource<CountResult> {
  const types = stats.value?.types;
  // Types beyond the 200 with the most jobs are not listed by name.
  const isPossible =
    types === undefined || type === null || !Object.hasOwn(types, type) || (types[type]?.[state] ?? 0) > 0;
  const counted = useResource<CountResult>(
    `failures ${state} ${fingerprint} ${isPossible}`,
    async () => (isPossible ? api.jobs.count({ fingerprint, state: [state], atMost: AT_MOST }) : NOTHING),
    isPossible ? { every: COUNT_MS } : {},
  );
  const { value: ended } = endedOperations;
  useEffect(() => {
    if (ended > 0) void counted.reload();
  }, [ended, counted]);
  return counted;
}

export function Group({ group, isOpen, onToggle, onRetry }: GroupProps): JSX.Element {
  const { fingerprint, type, code, count, firstAt, lastAt, trend } = group;
  const dead = useJobCount(group, "dead");
  const retrying = useJobCount(group, "failed");
  const row = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // Opened by a link from another view.
    if (isOpen && row.current !== null && row.current.getBoundingClientRect().top > innerHeight)
      row.current.scrollIntoView({ block: "center" });
  }, []);
  const id = `failure-${fingerprint}`;
  return (
    <>
      <div class={`fg ${isOpen ? "open" : ""}`} ref={row} role="listitem">
        <Icon name="chev" class="chev" />
        <div class="f-msg">
          <button type="button" class="f-open" aria-expanded={isOpen} aria-controls={id} onClick={onToggle}>
            <span class="msg">
              <Message group={group} />
            </span>
          </button>
          <div class="where">
            {type !== null && (
              <b class="cut">
                <bdi>{type}</bdi>
              </b>
            )}
            {code !== null && <bdi class="cut">{code.slice(0, 80)}</bdi>}
          </div>
        </div>
        <div class="f-trend">
          <Spark values={trend ?? []} state="failed" kind="bars" />
        </div>
        <div class="num f-count">
          <div>{number(count)}</div>
          <small>{count === 1 ? "attempt" : "attempts"}</small>
        </div>
        <div class="num">
          <Jobs dead={dead.data.value} retrying={retrying.data.value} fingerprint={fingerprint} />
        </div>
        <div class="num f-last">
          <Time at={lastAt} />
          <small>{dayAndClock(Date.parse(lastAt), now.value)}</small>
        </div>
        <div class="num f-first f-last t2">
          <Time at={firstAt} />
          <small>{dayAndClock(Date.parse(firstAt), now.value)}</small>
        </div>
        <div class="row f-act">
          {may("operator") && (dead.data.value?.count ?? 0) > 0 && (
            <Button small icon="retry" onClick={onRetry}>
              Retry…
            </Button>
          )}
        </div>
      </div>
      {isOpen && (
        <Detail id={id} group={group} dead={dead.data.value} retrying={retrying.data.value} onRetry={onRetry} />
      )}
    </>
  );
}

interface JobsProps {
  dead: CountResult | undefined;
  retrying: CountResult | undefined;
  fingerprint: string;
}

/** Jobs that have this error now. */
function Jobs({ dead, retrying, fingerprint }: JobsProps): JSX.Element {
  if (dead === undefined || retrying === undefined) return <span class="skel" />;
  if (dead.count === 0 && retrying.count === 0)
    return <small title="Its jobs were retried, cancelled or deleted">none now</small>;
  const main = dead.count > 0 ? dead : retrying;
  const state = dead.count > 0 ? "dead" : "failed";
  return (
    <>
      <a class="big" href={jobsHref({ state, fingerprint })}>
        {countText(main)}
      </a>
      <small class={dead.count > 0 && retrying.count > 0 ? "warn" : ""}>
        {dead.count === 0 ? "retrying" : retrying.count === 0 ? "dead" : `+ ${countText(retrying)} retrying`}
      </small>
    </>
  );
}
