import type { CountResult, ErrorGroupResult } from "holdfast/admin";
import type { JSX } from "preact";
import { api, may } from "../../app/api.js";
import { countText, shortId } from "../../app/format.js";
import { jobHref, jobsHref } from "../../app/links.js";
import { useResource } from "../../app/resource.js";
import { Button } from "../../ui/button.js";
import { Pending } from "../../ui/page-states.js";
import { StateLabel } from "../../ui/state.js";
import { Time } from "../../ui/time.js";
import { FIRST } from "../jobs/pace.js";
import { openAction } from "./actions.js";

interface DetailProps {
  id: string;
  group: ErrorGroupResult;
  dead: CountResult | undefined;
  retrying: CountResult | undefined;
  onRetry: () => void;
}

const LATEST = 5;
const EXAMPLE = 4_000;

/** The latest jobs of a group, an example of its message, and what can be done with its jobs. */
export function Detail({ id, group, dead, retrying, onRetry }: DetailProps): JSX.Element {
  const { fingerprint, frame, example, job } = group;
  const latest = useResource(`failures latest ${fingerprint}`, () => api.jobs.list({ fingerprint, limit: LATEST }), {
    every: 15_000,
  });
  const jobs = latest.data.value?.jobs;
  const deadCount = dead?.count ?? 0;
  const isMany = dead !== undefined && deadCount > Number(FIRST);
  const retryingCount = retrying?.count ?? 0;
  return (
    <div class="fg-x" id={id} role="listitem">
      <div>
        <h3>Newest jobs with this error</h3>
        {jobs === undefined ? (
          <Pending of={latest} rows={3} />
        ) : jobs.length === 0 ? (
          <p class="t3">No job has this error now: its jobs were retried, cancelled or deleted.</p>
        ) : (
          <table class="table in">
            <thead class="sr">
              <tr>
                <th scope="col">State</th>
                <th scope="col">Job</th>
                <th scope="col">User</th>
                <th scope="col">Attempt</th>
                <th scope="col">Failed</th>
              </tr>
            </thead>
            <tbody>
              {jobs.map((each) => (
                <tr key={each.id}>
                  <td>
                    <StateLabel state={each.state} />
                  </td>
                  <td>
                    <a class="mono link" href={jobHref(each.id)} title={each.id}>
                      {shortId(each.id)}
                    </a>
                  </td>
                  <td class="t2 wide-only">
                    <bdi class="cut">{each.user?.slice(0, 60) ?? ""}</bdi>
                  </td>
                  <td class="num t2 wide-only">
                    {each.attempt} of {each.maxAttempts}
                  </td>
                  <td class="num t2">{each.error !== null && <Time at={each.error.at} />}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        <p class="f-links">
          <a class="link" href={jobsHref({ fingerprint })}>
            Show all jobs
          </a>
          <a class="link" href={jobHref(job)}>
            Latest failed job
          </a>
        </p>
        <h3>A message of this group</h3>
        <pre class="codebox" tabIndex={0} aria-label="A message of this group">
          <bdi>{example.length > EXAMPLE ? `${example.slice(0, EXAMPLE)}…` : example}</bdi>
        </pre>
        {frame !== null && (
          <p class="t3">
            Thrown in <bdi class="mono">{frame.slice(0, 300)}</bdi>
          </p>
        )}
      </div>
      {may("operator") && (deadCount > 0 || retryingCount > 0) && (
        <div class="card f-panel">
          {deadCount > 0 && (
            <div class="op">
              <h3>Dead jobs</h3>
              {isMany && (
                <p class="t2">
                  When the cause is gone, retry a few and see whether they complete. Then retry the rest.
                </p>
              )}
              <div class="row">
                {isMany && (
                  <Button small icon="retry" onClick={() => openAction(group, "first")}>
                    Retry some first…
                  </Button>
                )}
                <Button small kind="primary" icon="retry" onClick={onRetry}>
                  {isMany ? `Retry all ${countText(dead)}…` : "Retry…"}
                </Button>
              </div>
              {may("admin") && (
                <div class="row">
                  <Button small kind="ghost" class="danger" icon="trash" onClick={() => openAction(group, "delete")}>
                    Delete…
                  </Button>
                </div>
              )}
            </div>
          )}
          {retryingCount > 0 && (
            <div class="op">
              <h3>Jobs that wait for their next attempt</h3>
              <div class="row">
                <Button small icon="cancelled" onClick={() => openAction(group, "cancel")}>
                  Cancel {retrying === undefined ? "" : countText(retrying)}…
                </Button>
              </div>
            </div>
          )}
        </div>
      )}
    </div>
  );
}
