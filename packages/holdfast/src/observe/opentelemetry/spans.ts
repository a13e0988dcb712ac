import type { Attributes, Context, Link, Span, Tracer } from "@opentelemetry/api";
import type { EnqueueCall, EnqueueEnd, RunEnd, TracedRun } from "../../engine/events/telemetry.js";
import { truncate } from "../../job/json.js";
import type { Api } from "./api.js";
import { ATTRIBUTES, errorType, exceptionOf, operation } from "./attributes.js";

/** A span and a context in which it is active. */
export interface OpenSpan {
  span: Span;
  context: Context;
}

// Spans should be small, and backends truncate long values anyway.
const MAX_INPUT_LENGTH = 4_000;

/** The span of an enqueue call, a child of the caller's active span. */
export function publishSpan({ context, trace, SpanKind }: Api, tracer: Tracer, call: EnqueueCall): OpenSpan {
  const active = context.active();
  const attributes = operation("publish", call);
  const span = tracer.startSpan(`publish ${call.queue}`, { kind: SpanKind.PRODUCER, attributes }, active);
  return { span, context: trace.setSpan(active, span) };
}

export function endPublish(api: Api, { span }: OpenSpan, call: EnqueueCall, end: EnqueueEnd): void {
  if (end.id !== null) span.setAttribute(ATTRIBUTES.messageId, end.id);
  if (call.many) span.setAttribute(ATTRIBUTES.messageCount, end.jobs);
  if (end.duplicate) span.setAttribute(ATTRIBUTES.duplicate, true);
  if (end.error !== null) recordError(api, span, end.error);
  span.end();
}

/**
 * The span of a run. The context active in the worker, such as the request that woke it, has nothing to do with the job, so only the
 * job's own trace context is used.
 */
export function processSpan(
  { trace, SpanKind }: Api,
  tracer: Tracer,
  run: TracedRun,
  carried: Context,
  options: { link: "child" | "link"; captureInput: boolean },
): OpenSpan {
  const creation = trace.getSpanContext(carried);
  const links: Link[] = creation === undefined ? [] : [{ context: creation }];
  const parent = options.link === "child" ? carried : trace.deleteSpan(carried);
  const attributes = { ...attributesOf(run), ...(options.captureInput ? inputOf(run) : {}) };
  const kind = SpanKind.CONSUMER;
  const span = tracer.startSpan(`process ${run.job.queue}`, { kind, attributes, links }, parent);
  return { span, context: trace.setSpan(parent, span) };
}

function attributesOf({ job, worker, waitMs }: TracedRun): Attributes {
  return {
    ...operation("process", job),
    [ATTRIBUTES.messageId]: job.id,
    [ATTRIBUTES.clientId]: worker,
    [ATTRIBUTES.attempt]: job.attempt,
    [ATTRIBUTES.maxAttempts]: job.maxAttempts,
    [ATTRIBUTES.wait]: waitMs / 1_000,
    ...(job.tags.length === 0 ? {} : { [ATTRIBUTES.tags]: [...job.tags] }),
    ...(job.schedule === null ? {} : { [ATTRIBUTES.schedule]: job.schedule.name }),
  };
}

function inputOf(run: TracedRun): Attributes {
  return { [ATTRIBUTES.messageBody]: truncate(JSON.stringify(run.input()) ?? "null", MAX_INPUT_LENGTH) };
}

/**
 * Ends the span at the time when the handler ended, so that it does not include the time to store the outcome. `startedAt` is by
 * `performance.now()`.
 */
export function endProcess(api: Api, { span }: OpenSpan, end: RunEnd, startedAt: number): void {
  const { outcome, error, durationMs, retryInMs } = end;
  span.setAttribute(ATTRIBUTES.outcome, outcome);
  if (retryInMs !== null) span.setAttribute(ATTRIBUTES.retryIn, retryInMs / 1_000);
  if (error !== null) recordError(api, span, error);
  else if (outcome === "lost") {
    span.setStatus({ code: api.SpanStatusCode.ERROR, message: "the lease expired" });
    span.setAttribute(ATTRIBUTES.errorType, "LeaseLostError");
  }
  span.end(Math.min(startedAt + durationMs, performance.now()));
}

function recordError({ SpanStatusCode }: Api, span: Span, error: unknown): void {
  const exception = exceptionOf(error);
  span.recordException(exception);
  span.setAttribute(ATTRIBUTES.errorType, errorType(error));
  span.setStatus({ code: SpanStatusCode.ERROR, message: exception.message });
}
