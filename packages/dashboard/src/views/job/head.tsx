import type { JobDetail } from "holdfast/admin";
import type { ComponentChildren, JSX } from "preact";
import { go } from "../../app/router.js";
import { now } from "../../app/now.js";
import { placeOf } from "../../app/opened-from.js";
import { Button } from "../../ui/button.js";
import { Copy } from "../../ui/copy.js";
import { Icon, type IconName } from "../../ui/icon.js";
import { StatePill } from "../../ui/state.js";
import { Time } from "../../ui/time.js";
import type { ActionName } from "./offered.js";
import { Menu, type MenuItem } from "../../ui/menu.js";
import { jobHref, jobsHref } from "../../app/links.js";

const ACTIONS: Readonly<Record<ActionName, { label: string; icon: IconName; danger?: true }>> = {
  retry: { label: "Retry", icon: "retry" },
  promote: { label: "Run now", icon: "play" },
  cancel: { label: "Cancel the job…", icon: "cancelled" },
  edit: { label: "Edit…", icon: "edit" },
  rerun: { label: "Edit and rerun…", icon: "edit" },
  "rerun-same": { label: "Rerun with the same input", icon: "plus" },
  delete: { label: "Delete…", icon: "trash", danger: true },
};
/** Shown as buttons, if the job has them; the others are in the menu. */
const SHOWN: readonly ActionName[] = ["retry", "promote", "rerun", "edit"];

interface HeadProps {
  job: JobDetail;
  actions: readonly ActionName[];
  onAction: (name: ActionName) => unknown;
}

export function Head({ job, actions, onAction }: HeadProps): JSX.Element {
  const [first] = actions;
  const primary = first === "retry" || first === "promote" ? first : null;
  const shown = actions.filter((name) => name !== primary && SHOWN.includes(name) && name !== "retry");
  const items = actions
    .filter((name) => name !== primary && !shown.includes(name))
    .map((name): MenuItem => {
      const { label, icon, danger } = ACTIONS[name];
      const text = name === "retry" ? "Retry with fresh attempts" : label;
      return { label: text, icon, danger, run: () => void onAction(name) };
    });
  return (
    <header class="job-h">
      <div class="row wrap">
        <div class="name">
          <StatePill state={job.state} />
          <h2>
            <bdi>{job.type}</bdi>
          </h2>
        </div>
        <div class="row push acts-n">
          <Neighbours id={job.id} />
          {shown.map((name) => (
            <Button
              key={name}
              icon={ACTIONS[name].icon}
              title={`${ACTIONS[name].label} (e)`}
              onClick={() => onAction(name)}
            >
              {ACTIONS[name].label}
            </Button>
          ))}
          {items.length > 0 && <Menu label="More actions" items={items} class="icon" />}
          {primary !== null && (
            <Button kind="primary" icon={ACTIONS[primary].icon} shortcut="r" onClick={() => onAction(primary)}>
              {ACTIONS[primary].label}
            </Button>
          )}
        </div>
      </div>
      <div class="sub">
        <span class="mono id">
          {job.id}
          <Copy text={job.id} label="Copy the job's id" />
        </span>
        <Fact icon="queues" title="Queue">
          <a href={jobsHref({ queue: job.queue })}>
            <bdi>{job.queue}</bdi>
          </a>
        </Fact>
        {job.user !== null && (
          <Fact icon="user" title="User">
            <a href={jobsHref({ user: job.user })}>
              <bdi>{job.user}</bdi>
            </a>
          </Fact>
        )}
        <Fact icon="clock" title="Time">
          <Moment job={job} />
        </Fact>
        {job.cancelRequestedAt !== null && job.finishedAt === null && (
          <span class="warn">
            <Icon name="stop" class="sm" />
            asked to stop
          </span>
        )}
      </div>
    </header>
  );
}

function Fact({ icon, title, children }: { icon: IconName; title: string; children: ComponentChildren }): JSX.Element {
  return (
    <span title={title}>
      <Icon name={icon} class="sm" />
      {children}
    </span>
  );
}

function Moment({ job }: { job: JobDetail }): JSX.Element {
  const { state, finishedAt, startedAt, claimedAt, dueAt, createdAt } = job;
  const since = startedAt ?? claimedAt;
  let [word, at] = ["enqueued", createdAt];
  if (finishedAt !== null) [word, at] = [state === "dead" ? "died" : state, finishedAt];
  else if ((state === "running" || state === "claimed") && since !== null)
    [word, at] = [state === "running" ? "started" : "claimed", since];
  else if (dueAt !== null && Date.parse(dueAt) > now.value) [word, at] = ["due", dueAt];
  return (
    <span>
      {word} <Time at={at} />
    </span>
  );
}

/** Previous and next in the list that the job was opened from. */
function Neighbours({ id }: { id: string }): JSX.Element | null {
  const place = placeOf(id);
  if (place === null) return null;
  const open = (other: string | null) => (): void => {
    if (other !== null) go(jobHref(other), { replace: true });
  };
  return (
    <span class="btn-group wide-only">
      <Button
        icon="up"
        label="Previous job of the list (k)"
        disabled={place.previous === null}
        onClick={open(place.previous)}
      />
      <Button icon="down" label="Next job of the list (j)" disabled={place.next === null} onClick={open(place.next)} />
    </span>
  );
}
