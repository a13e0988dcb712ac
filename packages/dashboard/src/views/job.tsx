import type { JobDetail } from "holdfast/admin";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { AdminError, api, may } from "../app/api.js";
import { addShortcuts } from "../app/keys.js";
import { follow } from "../app/live.js";
import { now } from "../app/now.js";
import { placeOf } from "../app/opened-from.js";
import { useResource } from "../app/resource.js";
import { go, listHref, route } from "../app/router.js";
import { Confirm } from "../ui/confirm.js";
import { Icon } from "../ui/icon.js";
import { Empty, Pending } from "../ui/page-states.js";
import { roles, runAction } from "./job/actions.js";
import { actionsFor, type ActionName } from "./job/offered.js";
import { Attempts } from "./job/attempts.js";
import { EditDialog } from "./job/edit-dialog.js";
import { Head } from "./job/head.js";
import { jobHref } from "../app/links.js";
import { loadJob, type LoadedJob } from "./job/load-job.js";
import { LogCard, Progress } from "./job/log-card.js";
import { PayloadCard } from "./job/payload-card.js";
import { loadCounts } from "./job/related.js";
import { Details, Related } from "./job/side.js";
import { TimelineCard } from "./job/timeline-card.js";
import { WhyCard } from "./job/why-card.js";

/** How often a job is loaded again. The event stream says when its state changes, but not its log lines. */
const LEASED_MS = 3_000;
const WAITING_MS = 10_000;
/** At most this often, however many events there are. */
const RELOAD_MS = 500;

export default function JobView(): JSX.Element {
  const [, id = ""] = route.value.parts;
  const [pollMs, setPollMs] = useState<number | undefined>();
  const resource = useResource(`job ${id}`, () => loadJob(id), pollMs === undefined ? {} : { every: pollMs });
  const loaded = resource.data.value;
  const wanted = loaded === undefined ? undefined : pollOf(loaded.job);
  useEffect(() => setPollMs(wanted), [wanted]);
  // The stream says when it has changed.
  useEffect(() => follow((job) => job.id === id, resource, RELOAD_MS), [id, resource]);
  useEffect(() => listShortcuts(id), [id]);

  if (loaded === undefined) {
    const { value: error } = resource.error;
    return isMissing(error) ? <Missing id={id} /> : <Pending of={resource} rows={12} />;
  }
  return (
    <Loaded id={id} loaded={loaded} isDeleted={isMissing(resource.error.value)} onChange={() => resource.reload()} />
  );
}

function pollOf({ finishedAt, state }: JobDetail): number | undefined {
  if (finishedAt !== null) return undefined;
  return state === "claimed" || state === "running" ? LEASED_MS : WAITING_MS;
}

function isMissing(error: unknown): boolean {
  return error instanceof AdminError && error.status === 404;
}

function listShortcuts(id: string): () => void {
  const open = (which: "previous" | "next") => (): void => {
    const other = placeOf(id)?.[which];
    if (other != null) go(jobHref(other), { replace: true });
  };
  return addShortcuts([
    { key: "Escape", about: "Go back to the list", run: () => go(listHref("jobs")) },
    { key: "j", about: "Next job of the list", run: open("next") },
    { key: "k", about: "Previous job of the list", run: open("previous") },
  ]);
}

function Missing({ id }: { id: string }): JSX.Element {
  return (
    <Empty icon="search" title="No job has this id.">
      <p>
        <code class="id">{id.slice(0, 100)}</code>
      </p>
      <p>
        It may have been deleted, by hand or at the end of its retention.{" "}
        {!may("viewer") && "Only your own jobs are shown."}
      </p>
      <a class="btn" href={listHref("jobs")}>
        Show all jobs
      </a>
    </Empty>
  );
}

type Asking = "edit" | "rerun" | "cancel" | "delete";

interface LoadedProps {
  id: string;
  loaded: LoadedJob;
  isDeleted: boolean;
  onChange: () => Promise<void>;
}

function Loaded({ id, loaded, isDeleted, onChange }: LoadedProps): JSX.Element {
  const { job, input, output } = loaded;
  const [asking, setAsking] = useState<Asking | null>(null);
  const explanation = useResource(`explain ${id}`, () => api.jobs.explain({ id }), {
    ...(job.finishedAt === null && !isDeleted && { every: WAITING_MS }),
  });
  const fingerprint = job.error?.fingerprint ?? "";
  const counts = useResource(`related ${id} ${fingerprint}`, () => loadCounts(job));

  // The same job in another state has other reasons.
  const version = `${job.state} ${job.updatedAt} ${job.dueAt}`;
  const explained = useRef(version);
  useEffect(() => {
    if (explained.current === version) return;
    explained.current = version;
    void explanation.reload();
  }, [version]);

  // Not `now`: a job that becomes due meanwhile loses "Run now" only when it is loaded again.
  const actions = useMemo(() => (isDeleted ? [] : actionsFor(job, roles(), now.peek())), [job, isDeleted]);
  const perform = async (name: ActionName): Promise<void> => {
    if (name === "edit" || name === "rerun" || name === "cancel" || name === "delete") return setAsking(name);
    await runAction(name, job);
    // Also after a failure: the job may have changed meanwhile.
    await onChange();
  };
  const performed = useRef(perform);
  performed.current = perform;
  useEffect(
    () =>
      addShortcuts([
        { key: "r", about: "Retry, or run now", run: () => runFirst(actions, ["retry", "promote"], performed.current) },
        {
          key: "e",
          about: "Edit, or edit and rerun",
          run: () => runFirst(actions, ["edit", "rerun"], performed.current),
        },
      ]),
    [actions],
  );

  return (
    <>
      {isDeleted && (
        <div class="note big s-cancelled" role="status">
          <Icon name="trash" />
          <span>This job was deleted meanwhile. The page shows what was loaded last.</span>
        </div>
      )}
      <Head job={job} actions={actions} onAction={perform} />
      <div class="cols job-cols">
        <div class="stack">
          {explanation.data.value !== undefined && !isDeleted && (
            <WhyCard
              job={job}
              explanation={explanation.data.value}
              onPromote={() => perform("promote")}
              onEdit={() => perform("edit")}
              onChange={() => explanation.reload()}
            />
          )}
          <Progress progress={job.progress} state={job.state} />
          {(job.attempts.length > 0 || job.finishedAt === null) && (
            <Attempts job={job} sameError={counts.data.value?.fingerprint ?? null} />
          )}
          <TimelineCard job={job} />
          <Payloads job={job} input={input} output={output} />
        </div>
        <aside class="stack" aria-label="Details">
          <Details job={job} />
          <Related job={job} counts={counts.data.value ?? {}} />
        </aside>
      </div>
      {(asking === "edit" || asking === "rerun") && (
        <EditDialog
          loaded={loaded}
          isRerun={asking === "rerun"}
          onClose={() => setAsking(null)}
          onDone={() => void onChange()}
        />
      )}
      {asking === "cancel" && (
        <Confirm
          title="Cancel this job?"
          action="Cancel the job"
          keep="Keep it"
          danger
          onClose={() => setAsking(null)}
          onConfirm={async () => {
            await runAction("cancel", job);
            await onChange();
            return true;
          }}
        >
          <p>
            {job.startedAt !== null && job.state === "running"
              ? "It is running: its handler is asked to stop, and decides when it does."
              : "It will not run. You can retry it later."}
          </p>
        </Confirm>
      )}
      {asking === "delete" && (
        <Confirm
          title="Delete this job?"
          action="Delete the job"
          keep="Keep it"
          danger
          onClose={() => setAsking(null)}
          onConfirm={async () => {
            if (await runAction("delete", job)) go(listHref("jobs"), { replace: true });
            else await onChange();
            return true;
          }}
        >
          <p>
            Its input, output, attempts and log are deleted with it. This cannot be undone.
            {job.state === "pending" || job.state === "failed" ? " It will not run." : ""}
          </p>
        </Confirm>
      )}
    </>
  );
}

function runFirst(
  actions: readonly ActionName[],
  wanted: readonly ActionName[],
  run: (name: ActionName) => unknown,
): void {
  const found = actions.find((name) => wanted.includes(name));
  if (found !== undefined) void run(found);
}

function Payloads({ job, input, output }: LoadedJob): JSX.Element {
  const hasOutput = job.state === "completed";
  const hasLog = job.log.length > 0;
  const cards = [
    <PayloadCard key="input" title="Input" payload={input} />,
    hasOutput && <PayloadCard key="output" title="Output" payload={output} />,
    hasLog && <LogCard key="log" log={job.log} />,
  ].filter((card) => card !== false);
  return <div class={`cols ${cards.length > 1 ? "cols-2" : ""} payloads`}>{cards}</div>;
}
