import type { JobDetail, ReasonResult } from "holdfast/admin";
import { exact, number, relative } from "../../app/format.js";
import type { IconName } from "../../ui/icon.js";
import { cut } from "../../ui/json-model.js";
import { plain } from "./error-text.js";

/** What a reason offers to do, if the role may. */
export type WhyAction =
  | { kind: "promote" | "queues" | "priority" }
  /** `id`: the worker that it is about. */
  | { kind: "workers"; id: string | undefined }
  | { kind: "resume"; queue: string | null }
  | { kind: "job"; id: string };

export interface Why {
  title: string;
  /** What would change it. */
  text: string;
  icon: IconName;
  /** The state whose colour it has. */
  colour: string;
  actions: WhyAction[];
}

type WhyJob = Pick<JobDetail, "queue" | "attempt" | "maxAttempts" | "error">;

/** A reason in words for people: with times in the viewer's zone, and with buttons instead of calls. */
export function whyOf(reason: ReasonResult, job: WhyJob, now: number): Why {
  const { kind, text, change, until, job: holder, queue = job.queue, workers } = reason;
  const [icon = "info", colour = "pending", ...kinds] = KNOWN[kind] ?? [];
  const when = until === null ? "" : relative(Date.parse(until), now);
  let title = withLocalTimes(text);
  if (kind === "dead") title = deadTitle(job);
  // "2h 5m" in commands, "2 h 5 m" here.
  if (kind === "paused") title = title.replace(/ for [\w ]+\.$/, (time) => time.replaceAll(/(\d)([a-z])/g, "$1 $2"));
  if (kind === "due-later") title = `It is due ${when}.`;
  if (kind === "retry") title = `It waits for attempt ${job.attempt + 1} of ${job.maxAttempts}, due ${when}.`;
  const actions = kinds.flatMap((action): WhyAction[] => {
    if (action === "promote") return [{ kind: action }];
    // The role user does not learn which queue, workers and jobs these are.
    if (action === "job") return holder === undefined ? [] : [{ kind: action, id: holder }];
    if (change === null) return [];
    if (action === "workers") return [{ kind: action, id: kind === "leased" ? workers?.[0] : undefined }];
    return [action === "resume" ? { kind: action, queue } : { kind: action }];
  });
  let help = withoutCalls(change ?? "");
  if (kind === "leased" && until !== null) {
    // The lease is extended while the job runs, so the time of its end is no news.
    title = title.replace(/: leased until .*$/s, ".");
    help = `Its lease ends ${when}, and is extended while the worker is alive.`;
  }
  if (kind === "dead" || kind === "cancelled") help = "It runs again only if you retry it.";
  if (kind === "retry" && job.error !== null) help = `Attempt ${job.attempt} failed: ${short(job.error.message)}`;
  return { title: plain(title), text: plain(help), icon, colour, actions };
}

/** Icon, colour, and what it offers. */
const KNOWN: Readonly<Record<string, readonly [IconName, string, ...WhyAction["kind"][]]>> = {
  completed: ["completed", "completed"],
  dead: ["dead", "dead"],
  cancelled: ["cancelled", "cancelled"],
  "key-held": ["lock", "failed", "job"],
  leased: ["running", "running", "workers"],
  "worker-lost": ["offline", "failed", "workers"],
  cancelling: ["stop", "failed"],
  expired: ["clock", "dead"],
  "due-later": ["clock", "pending", "promote"],
  retry: ["failed", "failed", "promote"],
  "no-handler": ["workers", "failed", "workers"],
  paused: ["pause", "failed", "resume", "queues"],
  "no-worker": ["workers", "dead", "workers"],
  ahead: ["queues", "pending", "priority"],
  busy: ["workers", "pending", "workers"],
  ready: ["check", "completed"],
};

function withLocalTimes(text: string): string {
  return text.replaceAll(/\d{4}-\d\d-\d\dT[\d:]{8}Z/g, (time) => exact(Date.parse(time)));
}

/** Sentences that name calls of the library are for programmers. */
function withoutCalls(text: string): string {
  const kept = text.split(/(?<=[.;]) /).filter((part) => !/\b(?:hf|worker)\.\w+\(/.test(part));
  return kept.join(" ").replace(/;$/, ".");
}

function deadTitle({ attempt, maxAttempts, error }: WhyJob): string {
  if (attempt >= maxAttempts && attempt > 0) {
    return attempt === 1 ? "Its only attempt failed." : `All ${number(attempt)} attempts failed.`;
  }
  const why = error === null ? "" : `: ${short(error.message)}`;
  return attempt === 0
    ? `It never ran${why === "" ? "." : why}`
    : `It was given up after attempt ${attempt} of ${maxAttempts}${why}`;
}

function short(message: string): string {
  const line = plain(message).split("\n", 1)[0] ?? "";
  return cut(line, 160);
}
