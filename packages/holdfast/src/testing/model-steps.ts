import { isFinished, isLeased } from "../job/state.js";
import { childFailure, eventTopic, jobTopic } from "../job/stored-step.js";
import type {
  InsertResult,
  JobSteps,
  NewEvent,
  NewJob,
  StepFailure,
  StepResult,
  StepWrite,
  StoredStep,
} from "../store.js";
import type { ModelJob } from "./model-job.js";

type ModelStep = StoredStep & { wake: StepWrite["wake"] };

/** What the steps need from the model of the store. */
interface JobsOfModel {
  readonly jobs: ReadonlyMap<string, ModelJob>;
  insert(job: NewJob, now: number): InsertResult;
  /** A wait of a parked job ended. */
  wake(job: ModelJob, now: number): void;
}

/** The steps of the jobs, and the events that they wait for. */
export class StepModel {
  readonly #store: JobsOfModel;
  /** By job, then by name and member. */
  readonly #steps = new Map<string, Map<string, ModelStep>>();
  readonly #events = new Map<string, { payload: string; until: number }>();
  /** How often a wait of a leased job ended. */
  readonly #wakes = new Map<string, number>();

  constructor(store: JobsOfModel) {
    this.#store = store;
  }

  read(job: string): JobSteps {
    const steps = [...(this.#steps.get(job)?.values() ?? [])].map(({ wake: _, ...step }) => step);
    steps.sort((a, b) => a.order - b.order || a.member - b.member);
    return { steps, wakes: this.#wakes.get(job) ?? 0 };
  }

  hasSteps(job: string): boolean {
    return this.#steps.has(job);
  }

  /** Children that steps of this job wait for. */
  openChildren(job: string): string[] {
    const waiting = this.read(job).steps.filter(({ kind, state }) => kind === "job" && state === "waiting");
    return waiting.map(({ topic }) => (topic ?? "").slice(jobTopic("").length));
  }

  save(write: StepWrite, now: number): StepResult {
    const job = this.#store.jobs.get(write.id);
    if (job === undefined || job.fence !== write.fence || !isLeased(job.state)) return { status: "lost" };
    const status = job.cancelRequestedAt === null ? "kept" : "cancel";
    const key = `${write.name}/${write.member}`;
    const before = this.#steps.get(write.id)?.get(key);
    if (before !== undefined && before.state !== "waiting") return { status, step: withoutWake(before) };
    if (write.child !== null) this.#store.insert(write.child, now);
    const step = stepOf(write, before, now);
    if (step.state === "waiting" && step.topic !== null) Object.assign(step, this.#endOf(step.topic, now));
    const steps = this.#steps.get(write.id) ?? new Map<string, ModelStep>();
    this.#steps.set(write.id, steps.set(key, step));
    return { status, step: withoutWake(step) };
  }

  reopen(job: string, names: readonly string[]): void {
    const steps = this.#steps.get(job);
    for (const [key, step] of steps ?? []) {
      if (step.state !== "failed" || !names.includes(step.name)) continue;
      if (step.kind === "job") Object.assign(step, { state: "waiting", failure: null } satisfies Partial<StoredStep>);
      else steps?.delete(key);
    }
  }

  emit({ name, payload, keepMs }: NewEvent, now: number): { first: boolean } {
    const kept = this.#events.get(name);
    const first = kept === undefined || kept.until <= now;
    if (first) this.#events.set(name, { payload, until: now + keepMs });
    this.#endTopic(eventTopic(name), now);
    return { first };
  }

  /** How many events a purge without limit would delete. */
  oldEvents(now: number): number {
    return [...this.#events.values()].filter(({ until }) => until <= now).length;
  }
  purgeEvents(now: number): void {
    for (const [name, { until }] of this.#events) if (until <= now) this.#events.delete(name);
  }

  finished(job: string, now: number): void {
    this.#endTopic(jobTopic(job), now);
  }

  /** The job is not in the store any more. */
  deleted(job: string, now: number): void {
    this.#steps.delete(job);
    this.#wakes.delete(job);
    this.#endTopic(jobTopic(job), now);
  }

  #endTopic(topic: string, now: number): void {
    const end = this.#endOf(topic, now);
    if (end === null) return;
    const woken = new Set<string>();
    const ended: [job: string, step: ModelStep][] = [];
    for (const [job, steps] of this.#steps) {
      for (const step of steps.values()) {
        if (step.topic !== topic || step.state !== "waiting") continue;
        Object.assign(step, end);
        ended.push([job, step]);
      }
    }
    for (const [job, { name, wake, state }] of ended) {
      const stillWaits = this.read(job).steps.some((step) => step.name === name && step.state === "waiting");
      if ((wake === "failure" && state === "failed") || !stillWaits) woken.add(`${job}\n${name}`);
    }
    for (const key of woken) this.#wake(key.split("\n")[0] ?? "", now);
  }

  #wake(id: string, now: number): void {
    const job = this.#store.jobs.get(id);
    if (job === undefined || isFinished(job.state)) return;
    if (isLeased(job.state)) this.#wakes.set(id, (this.#wakes.get(id) ?? 0) + 1);
    else this.#store.wake(job, now);
  }

  /** How a wait for a topic has ended; null if it has not. */
  #endOf(topic: string, now: number): Pick<StoredStep, "state" | "value" | "failure" | "endedAt"> | null {
    const failed = (failure: StepFailure) => ({ state: "failed", value: null, failure, endedAt: now }) as const;
    const done = (value: string | null) => ({ state: "done", value, failure: null, endedAt: now }) as const;
    if (topic.startsWith("event:")) {
      const event = this.#events.get(topic.slice("event:".length));
      return event === undefined || event.until <= now ? null : done(event.payload);
    }
    const job = this.#store.jobs.get(topic.slice("job:".length));
    if (job === undefined) return failed(childFailure("missing", null));
    const { state } = job;
    if (!isFinished(state)) return null;
    if (state === "completed") return done(job.output);
    return failed(childFailure(state, job.error && { message: job.error.message, code: job.error.code }));
  }
}

function withoutWake({ wake: _, ...step }: ModelStep): StoredStep {
  return { ...step };
}

/** A wait that is stored again keeps the time at which it ends, unless it waits for its own retry. */
function stepOf(write: StepWrite, before: ModelStep | undefined, now: number): ModelStep {
  const keepsTime = before !== undefined && write.to === "waiting" && write.kind !== "run";
  return {
    name: write.name,
    member: write.member,
    order: before?.order ?? write.order,
    kind: write.kind,
    state: write.to,
    fence: write.fence,
    tries: write.tries,
    topic: write.topic,
    value: write.value,
    failure: write.failure,
    startedAt: before?.startedAt ?? now,
    endedAt: write.to === "waiting" ? null : now,
    until: keepsTime ? before.until : write.forMs === null ? null : now + write.forMs,
    wake: write.wake,
  };
}
