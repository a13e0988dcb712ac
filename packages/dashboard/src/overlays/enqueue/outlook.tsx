import type { JobSummary, NewJobBody, TypeResult } from "holdfast/admin";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api } from "../../app/api.js";
import { duration } from "../../app/format.js";
import { now } from "../../app/now.js";
import { useResource } from "../../app/resource.js";
import { hrefOf } from "../../app/router.js";
import { Icon } from "../../ui/icon.js";
import { cut } from "../../ui/json-model.js";
import { checksOf, loadAround, type Around, type Check } from "./checks.js";

/** While somebody types, the key is not looked up with each letter. */
const TYPING_MS = 400;

/** What will happen to the job, as far as the server knows now. */
export function Outlook({ body, defaults }: { body: NewJobBody; defaults: TypeResult["defaults"] }): JSX.Element {
  const around = useResource("job around", loadAround);
  const { type, queue = defaults?.queue } = body;
  const known = around.data.value;
  const checks = type === "" || known == null ? [] : outlookOf(type, queue, known, now.value);
  const holder = useHolder(body);
  return (
    <>
      <p class="label">What will happen</p>
      {checks.length === 0 && <p class="t3">{type === "" ? "Choose a type first." : ""}</p>}
      <ul class="what-l">
        {defaults !== null && (
          <li>
            <Icon name="info" />
            <bdi>{optionsText(body, defaults)}</bdi>
          </li>
        )}
        {checks.map(({ isMet, text }) => (
          <li key={text} class={isMet ? "s-completed" : "s-failed"}>
            <Icon name={isMet ? "check" : "alert"} />
            <bdi>{text}</bdi>
          </li>
        ))}
      </ul>
      {holder !== null && (
        <div class="note s-failed">
          <Icon name="info" />
          <span>
            Key <code dir="auto">{cut(holder.key ?? "", 80)}</code> is held by a {holder.state} job.{" "}
            {conflictText(body)}{" "}
            <a class="link" href={hrefOf(`/jobs/${encodeURIComponent(holder.id)}`)} target="_blank">
              Show that job
            </a>
          </span>
        </div>
      )}
    </>
  );
}

/** What applies: the options of the job, or else those of its type. */
function optionsText(body: NewJobBody, defaults: NonNullable<TypeResult["defaults"]>): string {
  const { queue, priority, maxAttempts, tags } = { ...defaults, ...body };
  const { timeoutMs } = defaults;
  return [
    `Queue ${queue}`,
    `priority ${priority}`,
    maxAttempts === 1 ? "1 attempt" : `up to ${maxAttempts} attempts`,
    ...(timeoutMs === null ? [] : [`timeout ${duration(timeoutMs)}`]),
    ...tags.map((tag) => `tag ${tag}`),
  ].join(", ");
}

/** Without a queue, that of the type is used, which is not known here: then all queues that its workers serve are meant. */
function outlookOf(type: string, queue: string | undefined, around: Around, at: number): Check[] {
  if (queue !== undefined) return checksOf({ type, queue }, around, at);
  const anyQueue = { ...around, workers: around.workers.map((worker) => ({ ...worker, queues: null })) };
  const [paused, workers] = checksOf({ type, queue: "" }, anyQueue, at);
  return [workers, paused].filter(
    (check): check is Check => check !== undefined && (check === workers || !check.isMet),
  );
}

function conflictText({ unique }: NewJobBody): string {
  const onConflict = typeof unique === "object" ? unique.onConflict : "keep";
  if (onConflict === "replace") return "Enqueueing replaces it, if it still waits.";
  return onConflict === "reject" ? "Enqueueing fails." : "Enqueueing returns that job and adds none.";
}

/** The job that holds the key now. */
function useHolder({ unique, user }: NewJobBody): JobSummary | null {
  const key = typeof unique === "object" ? unique.key : undefined;
  const scope =
    typeof unique === "object" && typeof unique.scope === "object" && "calendar" in unique.scope
      ? unique.scope
      : undefined;
  const [holder, setHolder] = useState<JobSummary | null>(null);
  const wanted = JSON.stringify([key, user, scope]);
  useEffect(() => {
    setHolder(null);
    if (key === undefined) return;
    let isOld = false;
    const timer = setTimeout(() => {
      api.jobs
        .list({ key, limit: 1, ...(user !== undefined && { user }), ...(scope !== undefined && { keyScope: scope }) })
        .then(
          ({ jobs: [first] }) => {
            if (!isOld) setHolder(first ?? null);
          },
          // The enqueue itself says it.
          () => {},
        );
    }, TYPING_MS);
    return () => {
      isOld = true;
      clearTimeout(timer);
    };
  }, [wanted]);
  return holder;
}
