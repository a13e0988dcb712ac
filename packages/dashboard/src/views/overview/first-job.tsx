import type { WorkerResult } from "holdfast/admin";
import type { JSX } from "preact";
import { plural } from "../../app/format.js";
import { now } from "../../app/now.js";
import { isLive } from "../../app/workers.js";
import { Icon } from "../../ui/icon.js";

/** Instead of empty charts, until the first job. */
export function FirstJob({ workers }: { workers: readonly WorkerResult[] }): JSX.Element {
  const live = workers.filter((worker) => isLive(worker, now.value)).length;
  return (
    <section class="card empty">
      <Icon name="jobs" />
      <h2>No jobs yet</h2>
      <p>Enqueue one from your code. It appears on this page at once.</p>
      <pre>{`const { id } = await hf.enqueue(welcome, { to: "ada@example.com" });`}</pre>
      <ul class="legend">
        <li class="s-completed">
          <Icon name="completed" />
          Store is ready
        </li>
        <li class={live > 0 ? "s-completed" : "s-pending"}>
          <Icon name={live > 0 ? "completed" : "pending"} />
          {live > 0 ? `${plural(live, "worker")} ${live === 1 ? "is" : "are"} live` : "No live worker"}
        </li>
        <li class="s-pending">
          <Icon name="pending" />
          First job
        </li>
      </ul>
    </section>
  );
}
