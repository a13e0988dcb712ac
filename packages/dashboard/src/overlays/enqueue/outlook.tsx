import type { NewJobBody, QueueResult, TypeResult, WorkerResult } from "holdfast/admin";
import type { JSX } from "preact";
import { api } from "../../app/api.js";
import { coarse, duration, plural } from "../../app/format.js";
import { now } from "../../app/now.js";
import { useResource } from "../../app/resource.js";
import { isLive, takes } from "../../app/workers.js";
import { Icon, type IconName } from "../../ui/icon.js";

interface Around {
  queues: readonly QueueResult[];
  /** All queues are. */
  paused: boolean;
  workers: readonly WorkerResult[];
}

async function loadAround(): Promise<Around> {
  const [{ queues, paused }, { workers }] = await Promise.all([api.queues.list(), api.workers.list()]);
  return { queues, paused, workers };
}

interface OutlookProps {
  body: NewJobBody;
  /** Those of the type; null: not known. */
  defaults: TypeResult["defaults"];
}

/** What will happen to the job, as far as the server knows now. */
export function Outlook({ body, defaults }: OutlookProps): JSX.Element {
  const { value: around } = useResource("job around", loadAround).data;
  const { type, queue = defaults?.queue } = body;
  const lines: (Line | null)[] = [
    defaults === null ? null : { icon: "info", colour: "pending", text: optionsText(body, defaults) },
    ...linesOf(type, queue, around),
  ];
  return (
    <>
      <p class="label">What will happen</p>
      {type === "" && <p class="t3">Choose a type first.</p>}
      {type !== "" && <Lines class="what-l" lines={lines} />}
    </>
  );
}

/** What would happen to a job if it were retried now. */
export function RetryChecks({ type, queue }: { type: string; queue: string }): JSX.Element | null {
  const { value: around } = useResource("job around", loadAround).data;
  if (around === undefined) return null;
  const lines = linesOf(type, queue, around);
  if (lines.every((line) => line?.colour === "completed"))
    lines.unshift(lineOf(true, "If retried now, it would start at once"));
  return <Lines class="others" lines={lines} />;
}

function linesOf(type: string, queue: string | undefined, around: Around | undefined): (Line | null)[] {
  return around === undefined ? [] : [pauseLine(queue, around, now.value), workersLine(type, queue, around, now.value)];
}

function Lines({ lines, class: extra }: { lines: readonly (Line | null)[]; class: string }): JSX.Element {
  return (
    <ul class={extra}>
      {lines.map(
        (line) =>
          line !== null && (
            <li key={line.text} class={`s-${line.colour}`}>
              <Icon name={line.icon} />
              <bdi>{line.text}</bdi>
            </li>
          ),
      )}
    </ul>
  );
}

/** What applies: the options of the job, or else those of its type. */
function optionsText(body: NewJobBody, defaults: NonNullable<OutlookProps["defaults"]>): string {
  const { queue, priority, maxAttempts, timeoutMs, tags } = { ...defaults, ...body };
  return [
    `Queue ${queue}`,
    `priority ${priority}`,
    `up to ${plural(maxAttempts, "attempt")}`,
    ...(timeoutMs === null ? [] : [`timeout ${duration(timeoutMs)}`]),
    ...tags.map((tag) => `tag ${tag}`),
  ].join(", ");
}

interface Line {
  icon: IconName;
  colour: string;
  text: string;
}

function lineOf(isMet: boolean, text: string): Line {
  return isMet ? { icon: "check", colour: "completed", text } : { icon: "alert", colour: "failed", text };
}

/** `queue`: undefined where the type's is not known. */
function pauseLine(queue: string | undefined, { queues, paused }: Around, at: number): Line | null {
  if (paused) return lineOf(false, "All queues are paused");
  if (queue === undefined) return null;
  const own = queues.find((each) => each.queue === queue);
  if (own?.paused !== true) return lineOf(true, `Queue ${queue} is not paused`);
  const since = own.pausedAt === null ? "is paused" : `has been paused for ${coarse(at - Date.parse(own.pausedAt))}`;
  return lineOf(false, `Queue ${queue} ${since}${own.pausedBy === null ? "" : ` by ${own.pausedBy}`}`);
}

function workersLine(type: string, queue: string | undefined, { workers }: Around, at: number): Line {
  const live = workers.filter((worker) => isLive(worker, at));
  const able = live.filter(
    (worker) => !worker.draining && (queue === undefined || takes(worker, queue)) && worker.types.includes(type),
  );
  if (able.length === 0) return lineOf(false, live.length === 0 ? "No worker is live" : `No live worker takes ${type}`);
  const free = able.reduce((sum, { concurrency, running }) => sum + Math.max(0, concurrency - running), 0);
  const who = `${plural(able.length, "live worker takes", "live workers take")} ${type}`;
  return free === 0 ? lineOf(false, `${who}, and all are busy`) : lineOf(true, `${who} and can start ${free} more`);
}
