import type { JobDetail } from "holdfast/admin";
import type { ComponentChildren, JSX } from "preact";
import { duration, number, shortId } from "../../app/format.js";
import { hrefOf } from "../../app/router.js";
import { may } from "../../app/api.js";
import { Copy } from "../../ui/copy.js";
import { Icon, type IconName } from "../../ui/icon.js";
import { cut } from "../../ui/json-model.js";
import { Time } from "../../ui/time.js";
import { jobHref, jobsHref, scheduleHref } from "../../app/links.js";
import type { RelatedCounts } from "./related.js";

export function Details({ job }: { job: JobDetail }): JSX.Element {
  const { attempts, attempt, fence, maxAttempts, key, tags, trace, expiresAt, worker, finishedAt, dueAt, createdAt } =
    job;
  const ranMs = attempts.reduce(
    (sum, { startedAt, endedAt }) => sum + (startedAt === null ? 0 : Date.parse(endedAt) - Date.parse(startedAt)),
    0,
  );
  const isWaiting = job.state === "pending" || job.state === "failed";
  const traceId = trace?.["traceparent"]?.split("-")[1];
  return (
    <section class="card">
      <div class="card-h">
        <h2>Details</h2>
      </div>
      <div class="card-b">
        <dl class="facts">
          <Fact name="Priority">{job.priority}</Fact>
          <Fact name="Attempts">
            {number(attempt)} of {number(maxAttempts)}
          </Fact>
          <Fact name="Enqueued">
            <Time at={createdAt} />
          </Fact>
          {isWaiting && dueAt !== null && (
            <Fact name="Due">
              <Time at={dueAt} />
            </Fact>
          )}
          {finishedAt !== null && (
            <Fact name="Finished">
              <Time at={finishedAt} />
            </Fact>
          )}
          {ranMs > 0 && <Fact name="Ran in all">{duration(ranMs)}</Fact>}
          {job.timeoutMs !== null && (
            <Fact name="Timeout">{job.timeoutMs === 0 ? "none" : duration(job.timeoutMs)}</Fact>
          )}
          {worker !== null && (
            <Fact name="Worker">
              {may("viewer") ? (
                <a class="cut" href={hrefOf("/workers", { open: worker })} title={worker}>
                  <bdi>{worker}</bdi>
                </a>
              ) : (
                <bdi>{worker}</bdi>
              )}
            </Fact>
          )}
          {key !== null && (
            <Fact name="Unique key">
              <code class="cut" dir="auto" title={key}>
                {key}
              </code>
              <Copy text={key} label="Copy the unique key" />
            </Fact>
          )}
          {fence > 0 && <Fact name="Fencing token">{number(fence)}</Fact>}
          {tags.length > 0 && (
            <Fact name="Tags">
              {tags.map((tag) => (
                <a key={tag} class="tag" href={jobsHref({ tag })} title={tag}>
                  <bdi class="cut">{cut(tag, 60)}</bdi>
                </a>
              ))}
            </Fact>
          )}
          {traceId !== undefined && (
            <Fact name="Trace">
              <code title={traceId}>
                {traceId.length > 18 ? `${traceId.slice(0, 8)}…${traceId.slice(-6)}` : traceId}
              </code>
              <Copy text={traceId} label="Copy the trace id" />
            </Fact>
          )}
          {expiresAt !== null && (
            <Fact name={isWaiting ? "Expires" : "Expiry"}>
              <Time at={expiresAt} />
            </Fact>
          )}
        </dl>
      </div>
    </section>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }): JSX.Element {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

type Line = readonly [icon: IconName, text: string, href: string, aside?: string | undefined];

/** Other jobs that have something in common with it. */
export function Related({ job, counts }: { job: JobDetail; counts: RelatedCounts }): JSX.Element {
  const { id, type, user, key, schedule, parent, error } = job;
  const fingerprint = error?.fingerprint ?? null;
  const lines: (Line | false)[] = [
    parent !== null && ["enter", "Its parent", jobHref(parent), shortId(parent)],
    (counts.children ?? "0") !== "0" && ["child", "Its children", jobsHref({ parent: id }), counts.children],
    parent !== null && ["group", "Other children of its parent", jobsHref({ parent })],
    fingerprint !== null && ["failures", "Same error", jobsHref({ fingerprint }), counts.fingerprint],
    ["jobs", "Same type", jobsHref({ type })],
    user !== null && ["user", "Same user", jobsHref({ user }), counts.user],
    key !== null && ["tokens", "Holder of its unique key", jobsHref({ key, ...(user !== null && { user }) })],
    schedule !== null && may("viewer") && ["schedules", `Schedule ${schedule.name}`, scheduleHref(schedule.name)],
    schedule !== null && ["jobs", "Same schedule", jobsHref({ schedule: schedule.name })],
  ];
  return (
    <section class="card">
      <div class="card-h">
        <h2>Related</h2>
      </div>
      <ul class="list">
        {lines.map((line) => {
          if (line === false) return null;
          const [icon, text, href, aside] = line;
          return (
            <li key={text}>
              <Icon name={icon} class="sm t3" />
              <a class="grow cut" href={href}>
                <bdi>{text}</bdi>
              </a>
              {aside !== undefined && <span class="t3 nowrap num">{aside}</span>}
            </li>
          );
        })}
      </ul>
    </section>
  );
}
