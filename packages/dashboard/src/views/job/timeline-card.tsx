import type { JobDetail } from "holdfast/admin";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { date, duration, exact, number, plural, preciseClock, seconds } from "../../app/format.js";
import { now } from "../../app/now.js";
import { Icon, type IconName } from "../../ui/icon.js";
import { cut } from "../../ui/json-model.js";
import { plain } from "./error-text.js";
import { jobHref, scheduleHref } from "../../app/links.js";
import { timelineOf, widthsOf, type SpanKind, type Timeline, type Transition } from "./timeline.js";

const WIDTH = 1_000;
const MIN_WIDTH = 5;
const GAP = 1;

/** Word, class in the strip, and the class of the square in the legend. */
const SPANS: Readonly<Record<SpanKind, readonly [word: string, strip: string, legend: string]>> = {
  delay: ["not due yet", "delay", "s-cancelled"],
  wait: ["waited", "wait", "s-pending"],
  run: ["ran", "s-running", "s-running"],
  back: ["waited to retry", "back", "s-failed"],
  lost: ["lease lost", "s-cancelled", "s-cancelled"],
  unknown: ["earlier attempts", "delay", "s-cancelled"],
};

const spanText = (kind: SpanKind, ms: number): string => `${SPANS[kind][0]} ${duration(ms)}`;

export function TimelineCard({ job }: { job: JobDetail }): JSX.Element {
  const timeline = timelineOf(job, now.value);
  const length = timeline.to - timeline.from;
  return (
    <section class="card">
      <div class="card-h">
        <h2>Timeline</h2>
        <span class="meta">
          {duration(length)} {job.finishedAt === null ? "since its enqueue" : "from enqueue to end"}
        </span>
      </div>
      {timeline.spans.length > 0 && <Strip timeline={timeline} end={job.finishedAt === null ? null : job.state} />}
      <Transitions job={job} transitions={timeline.transitions} />
    </section>
  );
}

function Strip({ timeline: { spans, total, from, to }, end }: { timeline: Timeline; end: string | null }): JSX.Element {
  const END_WIDTH = end === null ? 0 : 4;
  const widths = widthsOf(
    spans.map(({ from: start, to: stop }) => stop - start),
    WIDTH - END_WIDTH,
    MIN_WIDTH,
  );
  const label = spans.map((span) => spanText(span.kind, span.to - span.from)).join(", ");
  let x = 0;
  const kinds = (Object.keys(total) as SpanKind[]).filter((kind) => total[kind] > 0);
  return (
    <div class="card-b">
      <svg class="life" viewBox={`0 0 ${WIDTH} 26`} preserveAspectRatio="none" role="img" aria-label={label}>
        {spans.map((span, at) => {
          const width = widths[at] ?? 0;
          const rect = (
            <rect key={at} class={SPANS[span.kind][1]} x={x} y="5" width={Math.max(1, width - GAP)} height="16" rx="2">
              <title>{spanText(span.kind, span.to - span.from)}</title>
            </rect>
          );
          x += width;
          return rect;
        })}
        {end !== null && <rect class={`s-${end}`} x={WIDTH - END_WIDTH} y="1" width={END_WIDTH} height="24" rx="1" />}
      </svg>
      <div class="life-x">
        <span>{seconds(from)}</span>
        <ul class="legend">
          {kinds.map((kind) => (
            <li key={kind} class={SPANS[kind][2]}>
              <span class={`sq ${SPANS[kind][1] === SPANS[kind][2] ? "" : "hollow"}`} />
              {spanText(kind, total[kind])}
            </li>
          ))}
        </ul>
        <span>{end === null ? "now" : seconds(to)}</span>
      </div>
    </div>
  );
}

/** A long list shows its beginning and its end. */
const SHOWN_FIRST = 2;
const SHOWN_LAST = 8;

function Transitions({ job, transitions }: { job: JobDetail; transitions: readonly Transition[] }): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const hidden =
    isWhole || transitions.length <= SHOWN_FIRST + SHOWN_LAST + 2 ? 0 : transitions.length - SHOWN_FIRST - SHOWN_LAST;
  const last = hidden === 0 ? transitions.slice(SHOWN_FIRST) : transitions.slice(-SHOWN_LAST);
  const first = transitions.slice(0, SHOWN_FIRST);
  let day = "";
  const line = (each: Transition, at: number): JSX.Element[] => {
    const own = date(each.at);
    const isNewDay = own !== day;
    const hadDay = day !== "";
    day = own;
    const shown = <Line key={`${at} ${each.kind}`} job={job} transition={each} />;
    // The day is said where it changes.
    return isNewDay && hadDay
      ? [
          <li key={own} class="day">
            {own}
          </li>,
          shown,
        ]
      : [shown];
  };
  return (
    <ol class="tl">
      {first.map(line)}
      {hidden > 0 && (
        <li class="day">
          <button type="button" class="link" onClick={() => setWhole(true)}>
            Show {hidden} more
          </button>
        </li>
      )}
      {last.map((each, at) => line(each, at + SHOWN_FIRST))}
    </ol>
  );
}

/** Icon, colour and word; default: all three as the kind, which is a state. */
const LOOK: Readonly<Partial<Record<Transition["kind"], readonly [icon: IconName, colour: string, word: string]>>> = {
  enqueued: ["pending", "pending", "pending"],
  expired: ["claimed", "claimed", "lease expired"],
  released: ["pending", "pending", "released"],
  "cancel-requested": ["stop", "failed", "cancellation requested"],
  unknown: ["more", "cancelled", "earlier attempts"],
  due: ["clock", "pending", "due"],
};

/** How an attempt ended, or another transition. */
export function lookOf(kind: Transition["kind"]): readonly [icon: IconName, colour: string, word: string] {
  return LOOK[kind] ?? [kind as IconName, kind, kind];
}

function Line({ job, transition }: { job: JobDetail; transition: Transition }): JSX.Element {
  const { at, kind, ms } = transition;
  const [icon, colour, word] = lookOf(kind);
  const isAttempt = ["failed", "expired", "released", "cancelled", "completed", "dead"].includes(kind);
  let aside = "";
  if (ms !== undefined && kind === "due") aside = `in ${duration(ms)}`;
  else if (ms !== undefined && kind === "expired") aside = `${duration(ms)} lost`;
  else if (ms !== undefined && ms > 0) aside = `${isAttempt ? "ran" : "waited"} ${duration(ms)}`;
  return (
    <li class={`s-${colour}`}>
      <time class="mono" dateTime={new Date(at).toISOString()} title={exact(at)}>
        {seconds(at)}
        <span class="wide-only">{preciseClock(at).slice(8)}</span>
      </time>
      <Icon name={icon} />
      <span>
        <b>{word}</b>
        <About job={job} transition={transition} />
      </span>
      <span class="d">{aside}</span>
    </li>
  );
}

function About({ job, transition: { kind, attempt, worker, fence, error, count } }: Props): JSX.Element {
  const token = fence == null ? "" : `, fencing token ${number(fence)}`;
  switch (kind) {
    case "enqueued":
      return <Origin job={job} />;
    case "claimed":
    case "running":
      return (
        <>
          {kind === "running" && `, attempt ${attempt}`}
          {worker != null && (
            <>
              {kind === "running" ? " on " : " by "}
              <bdi>{worker}</bdi>
            </>
          )}
          {token}
        </>
      );
    case "unknown":
      return <> · {plural(count ?? 0, "attempt is", "attempts are")} no longer kept</>;
    case "released":
      return <> · its worker was stopped</>;
    case "expired":
      return <> · its worker stopped extending the lease</>;
    case "due":
      return <> · a worker may claim it</>;
    default:
      return (
        <>
          {error != null && (
            <>
              {" · "}
              <bdi>{line(error)}</bdi>
            </>
          )}
          {kind === "dead" && attempt !== undefined && attempt >= job.maxAttempts && ". Attempts used up"}
        </>
      );
  }
}

interface Props {
  job: JobDetail;
  transition: Transition;
}

function line(message: string): string {
  return cut(plain(message).split("\n", 1)[0] ?? "", 160);
}

function Origin({ job: { schedule, parent } }: { job: JobDetail }): JSX.Element {
  if (schedule !== null) {
    return (
      <>
        {" · enqueued by schedule "}
        <a class="link" href={scheduleHref(schedule.name)}>
          <bdi>{schedule.name}</bdi>
        </a>
        , slot {preciseClock(Date.parse(schedule.slot)).slice(0, 5)}
      </>
    );
  }
  if (parent !== null) {
    return (
      <>
        {" · enqueued by "}
        <a class="link" href={jobHref(parent)}>
          another job
        </a>
      </>
    );
  }
  return <> · enqueued</>;
}
