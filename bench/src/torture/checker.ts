import { isDeepStrictEqual } from "node:util";
import type { StoredStep } from "holdfast/store";
import { isChildStep, type Evidence } from "./evidence.js";
import type { Entry } from "./history.js";
import type { CallResult } from "./jobs.js";
import type { PlannedRun } from "./plan.js";

export const RULES = {
  "runs once": "A step whose result was stored does not run its function again.",
  "wait ends": "No wait sleeps through its event.",
  "parent goes on": "No parent is left behind when its child has ended.",
  "late steps refused": "A step of a worker is not stored after its lease was lost.",
  "job ends": "Every job ends.",
  "one result": "Each step has one result, in the store and in every run.",
  "one lease": "A fencing token is given to one claim.",
} as const;
export type Rule = keyof typeof RULES;

export interface Violation {
  rule: Rule;
  job: string;
  step: string | null;
  detail: string;
}

/** Finds what contradicts the rules in the history of a round and in what is stored at its end. */
export function check(evidence: Evidence): Violation[] {
  return [
    ...runsOnce(evidence),
    ...waitsEnd(evidence),
    ...parentsGoOn(evidence),
    ...lateStepsRefused(evidence),
    ...jobsEnd(evidence),
    ...oneResult(evidence),
    ...oneLease(evidence),
  ];
}

type EntryOf<Did extends Entry["did"]> = Extract<Entry, { did: Did }>;

function entries<Did extends Entry["did"]>({ history }: Evidence, did: Did): { entry: EntryOf<Did>; index: number }[] {
  return history.flatMap((entry, index) => (entry.did === did ? [{ entry: entry as EntryOf<Did>, index }] : []));
}

function* runsOnce(evidence: Evidence): Generator<Violation> {
  const returned = new Map<string, number>();
  for (const { entry, index } of entries(evidence, "step returned")) {
    const key = `${entry.job} ${entry.step}`;
    if (!returned.has(key)) returned.set(key, index);
  }
  for (const { entry, index } of entries(evidence, "function began")) {
    const { job, step, fence, pid } = entry;
    const stored = returned.get(`${job} ${step}`);
    if (stored === undefined || stored > index) continue;
    const claims = entries(evidence, "claimed").filter((claim) => claim.entry.job === job && claim.index < index);
    const newest = Math.max(0, ...claims.map((claim) => claim.entry.fence));
    const late = newest > fence ? `, after claim ${newest}` : "";
    const detail = `its function ran again in process ${pid} under fence ${fence}${late}, although its result was stored`;
    yield { rule: "runs once", job, step, detail };
  }
}

function* waitsEnd(evidence: Evidence): Generator<Violation> {
  yield* asleepViolations(evidence, "event:", "wait ends");
  const began = entries(evidence, "topic began");
  const ended = entries(evidence, "topic ended");
  for (const topic of new Set(ended.map(({ entry }) => entry.topic).filter((each) => each.startsWith("event:")))) {
    const firsts = ended.filter(({ entry }) => entry.topic === topic && entry.first === true);
    if (firsts.length > 1) yield { rule: "one result", job: topic, step: null, detail: "two events were the first" };
  }
  for (const [{ main }, run] of runsOf(evidence)) {
    for (const { name, kind } of run.steps) {
      if (kind !== "event" && kind !== "event in time") continue;
      const step = evidence.steps.get(main)?.find((each) => each.name === name);
      if (step?.state !== "done") continue;
      const call = callOf(step.value);
      const first = ended.find(({ entry }) => entry.topic === step.topic && entry.first === true)?.entry.call;
      const known = began.some(({ entry }) => entry.topic === step.topic && entry.call === call);
      if (call === null)
        yield { rule: "wait ends", job: main, step: name, detail: "it timed out, although its event was emitted" };
      else if (!known)
        yield { rule: "wait ends", job: main, step: name, detail: `its payload is of no event: ${step.value}` };
      else if (first !== undefined && first !== call)
        yield { rule: "one result", job: main, step: name, detail: "its payload is not that of the first event" };
    }
  }
}

function* parentsGoOn(evidence: Evidence): Generator<Violation> {
  yield* asleepViolations(evidence, "job:", "parent goes on");
  for (const [{ main }, run] of runsOf(evidence)) {
    for (const step of evidence.steps.get(main) ?? []) {
      if (step.kind !== "job" || step.topic === null) continue;
      const child = evidence.ended.get(step.topic.slice("job:".length)) ?? null;
      const fails = run.children[step.name]?.[step.member]?.fails === true;
      if (child?.state === "completed" && step.state === "done" && sameJson(step.value, child.output)) continue;
      if (fails && child?.state === "dead" && step.state === "failed") continue;
      const detail = `member ${step.member} is ${step.state}, and its child ${child?.state ?? "missing"}`;
      yield { rule: "parent goes on", job: main, step: step.name, detail };
    }
  }
}

/**
 * A wait may sleep until the store is repaired if a call that stored it, or one that ended its topic, was interrupted: `repairWaits`
 * is for these. If all of these calls have returned, the wait has ended.
 */
function* asleepViolations(evidence: Evidence, prefix: string, rule: Rule): Generator<Violation> {
  for (const { job, step, topic, at } of evidence.asleep) {
    if (!topic.startsWith(prefix)) continue;
    const topics = new Set(prefix === "event:" ? [topic] : topicsOf(evidence, job, step));
    let open = 0;
    const ended = new Set<string>();
    for (const entry of evidence.history) {
      if (entry.at > at) break;
      if ("topic" in entry && topics.has(entry.topic)) {
        open += entry.did === "topic began" ? 1 : -1;
        if (entry.did === "topic ended") ended.add(entry.topic);
      } else if (
        (entry.did === "wait began" || entry.did === "wait stored") &&
        entry.job === job &&
        entry.step === step
      ) {
        open += entry.did === "wait began" ? 1 : -1;
      }
    }
    if (open === 0 && ended.size === topics.size)
      yield { rule, job, step, detail: `it slept after ${topic} had ended` };
  }
}

function topicsOf({ steps }: Evidence, job: string, name: string): string[] {
  return (steps.get(job) ?? []).flatMap((step) => (step.name === name && step.topic !== null ? [step.topic] : []));
}

function* lateStepsRefused(evidence: Evidence): Generator<Violation> {
  const claims = entries(evidence, "claimed");
  const calls = new Map(entries(evidence, "function ended").map((each) => [each.entry.call, each]));
  for (const [job, steps] of evidence.steps) {
    for (const { name, kind, state, value, fence } of steps) {
      const call = kind === "run" && state === "done" ? calls.get(callOf(value) ?? "") : undefined;
      if (call === undefined) continue;
      const later = claims.find(
        ({ entry, index }) => entry.job === job && entry.fence > call.entry.fence && index < call.index,
      );
      if (later !== undefined) {
        const detail = `stored from fence ${call.entry.fence}, whose function ended after claim ${later.entry.fence}`;
        yield { rule: "late steps refused", job, step: name, detail };
      } else if (fence !== call.entry.fence) {
        const detail = `stored under fence ${fence}, but it ran under fence ${call.entry.fence}`;
        yield { rule: "late steps refused", job, step: name, detail };
      }
    }
  }
}

function* jobsEnd(evidence: Evidence): Generator<Violation> {
  const failing = new Set(
    runsOf(evidence).flatMap(([{ main }, run]) =>
      (evidence.steps.get(main) ?? [])
        .filter(({ name, member }) => run.children[name]?.[member]?.fails === true)
        .map(({ topic }) => (topic ?? "").slice("job:".length)),
    ),
  );
  for (const [job, ended] of evidence.ended) {
    const expected = failing.has(job) ? "dead" : "completed";
    if (ended?.state === expected) continue;
    const because = ended?.error == null ? "" : `: ${ended.error.code ?? ""} ${ended.error.message}`;
    const detail = `a job of type ${ended?.type ?? "unknown"} is ${ended?.state ?? "missing"}, not ${expected}${because}`;
    yield { rule: "job ends", job, step: null, detail };
  }
}

function* oneResult(evidence: Evidence): Generator<Violation> {
  for (const [{ main }, run] of runsOf(evidence)) {
    if (evidence.ended.get(main)?.state !== "completed") continue;
    const steps = evidence.steps.get(main) ?? [];
    const output = JSON.parse(evidence.ended.get(main)?.output ?? "[]") as unknown[];
    for (const [at, { name, kind }] of run.steps.entries()) {
      const members = steps.filter((step) => step.name === name);
      const expected = isChildStep(run, name) ? (run.children[name]?.length ?? 0) : 1;
      const violation = { rule: "one result", job: main, step: name } as const;
      if (members.length !== expected || new Set(members.map(({ member }) => member)).size !== expected)
        yield { ...violation, detail: `it is stored ${members.length} times, not ${expected}` };
      // The end of a sleep is not stored.
      if (kind !== "nap" && kind !== "long nap" && members.some(({ state }) => state === "waiting"))
        yield { ...violation, detail: "it has not ended, but its job has" };
      const stored = valueOf(members, kind);
      if (stored !== undefined && !isDeepStrictEqual(stored, output[at]))
        yield { ...violation, detail: `stored ${show(stored)}, but the job's output has ${show(output[at])}` };
    }
  }
  const values = new Map<string, unknown>();
  for (const { entry } of entries(evidence, "step returned")) {
    const { job, step, value } = entry;
    const key = `${job} ${step}`;
    if (!values.has(key)) values.set(key, value);
    else if (!isDeepStrictEqual(values.get(key), value))
      yield { rule: "one result", job, step, detail: `it returned ${show(values.get(key))} and ${show(value)}` };
  }
}

/** What a step returned, as it is stored; undefined if its rows alone do not show it. */
function valueOf(members: readonly StoredStep[], kind: PlannedRun["steps"][number]["kind"]): unknown {
  if (kind === "children" || kind === "nap" || kind === "long nap") return undefined;
  const value = members[0]?.value ?? null;
  return value === null ? undefined : (JSON.parse(value) as unknown);
}

function* oneLease(evidence: Evidence): Generator<Violation> {
  const claimed = new Set<string>();
  for (const { entry } of entries(evidence, "claimed")) {
    const { job, fence } = entry;
    if (claimed.has(`${job} ${fence}`)) yield { rule: "one lease", job, step: null, detail: `fence ${fence} twice` };
    claimed.add(`${job} ${fence}`);
  }
}

function runsOf({ jobs, plan }: Evidence): [Evidence["jobs"][number], PlannedRun][] {
  return jobs.map((each, at) => [each, plan.runs[at] as PlannedRun]);
}

function callOf(value: string | null): string | null {
  if (value === null) return null;
  return (JSON.parse(value) as Partial<CallResult> | null)?.call ?? null;
}

function sameJson(one: string | null, other: string | null): boolean {
  return isDeepStrictEqual(JSON.parse(one ?? "null"), JSON.parse(other ?? "null"));
}

function show(value: unknown): string {
  return JSON.stringify(value)?.slice(0, 200) ?? "undefined";
}
