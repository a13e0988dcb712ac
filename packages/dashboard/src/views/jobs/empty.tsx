import type { JSX } from "preact";
import { may } from "../../app/api.js";
import { number, plural } from "../../app/format.js";
import { stats } from "../../app/live.js";
import { Button } from "../../ui/button.js";
import { Icon } from "../../ui/icon.js";
import type { JobList } from "./job-list.js";

function Art(): JSX.Element {
  return (
    <svg class="art" viewBox="0 0 120 72" fill="none" stroke="currentColor" stroke-width="1.5" aria-hidden="true">
      <rect x="6" y="8" width="108" height="14" rx="4" />
      <rect x="6" y="29" width="108" height="14" rx="4" stroke-dasharray="4 4" />
      <rect x="6" y="50" width="108" height="14" rx="4" stroke-dasharray="2 6" />
      <circle cx="17" cy="15" r="3" />
      <path d="M26 15h34M92 15h14" />
    </svg>
  );
}

/** There are no jobs at all. `workers`: how many are alive; undefined if it is not known. */
export function NoJobs({ workers }: { workers: number | undefined }): JSX.Element {
  const isOwn = !may("viewer");
  return (
    <section class="card empty">
      <Art />
      <h2>No jobs yet</h2>
      {isOwn ? (
        <p>Your jobs appear here as soon as they are enqueued.</p>
      ) : (
        <>
          <p>
            Enqueue one from your code{may("operator") && ", or with Enqueue above"}. It appears on this page at once.
          </p>
          <pre tabIndex={0}>
            <code>{'const { id } = await hf.enqueue(welcome, { to: "ada@example.com" });'}</code>
          </pre>
          <ul class="legend">
            <Step isDone label="Store is ready" />
            {workers !== undefined && (
              <Step
                isDone={workers > 0}
                label={workers === 0 ? "No worker is alive" : plural(workers, "worker is alive", "workers are alive")}
              />
            )}
            <Step isDone={false} label="First job" />
          </ul>
        </>
      )}
    </section>
  );
}

function Step({ isDone, label }: { isDone: boolean; label: string }): JSX.Element {
  const state = isDone ? "completed" : "pending";
  return (
    <li class={`s-${state}`}>
      <Icon name={state} class="sm" />
      {label}
    </li>
  );
}

/** No job matches, as far as the server has looked. */
export function NoMatch({ list, onClear }: { list: JobList; onClear: () => void }): JSX.Element {
  const isOver = list.cursor.value === null;
  const isLoading = list.isLoading.value;
  const all = stats.value === null ? null : Object.values(stats.value.states).reduce((sum, count) => sum + count, 0);
  const looked = `Looked at ${plural(list.examined.value, "job")}${all === null || all < list.examined.value ? "" : ` of ${number(all)}`}.`;
  return (
    <section class="card empty">
      <Art />
      <h2>{isOver ? "No job matches" : "No job matches so far"}</h2>
      <p>
        {isOver ? "Remove a part of the filter to see more." : looked}
        {!isOver &&
          list.isSearch &&
          " A search reads a part of the jobs at a time. Add a type or a time to read fewer."}
      </p>
      <div class="row wrap">
        {!isOver && (
          <Button kind="primary" onClick={() => (isLoading ? list.stop() : void list.more())}>
            {isLoading ? "Stop" : "Go on"}
          </Button>
        )}
        <Button onClick={onClear}>Clear the filter</Button>
      </div>
    </section>
  );
}
