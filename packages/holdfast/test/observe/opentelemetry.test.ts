import { context, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import {
  AggregationTemporality,
  DataPointType,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
  type MetricData,
} from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type ReadableSpan,
} from "@opentelemetry/sdk-trace-base";
import { holdfast, InvalidOptionError, job, type Holdfast, type HoldfastOptions } from "holdfast";
import { openTelemetry, type OpenTelemetryOptions } from "holdfast/opentelemetry";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { folder, scene as engineScene, deferred } from "../engine/scene.js";
import { addressOf, ownSchema } from "../postgres/scene.js";
import { postgresServer } from "../postgres/server.js";

const server = postgresServer();
const addresses: Record<string, () => Promise<string>> = {
  SQLite: async () => `sqlite:${await folder()}/jobs.db`,
  PostgreSQL: () => Promise.resolve(addressOf(server.url(), ownSchema(server))),
};

beforeEach(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
});
afterEach(() => {
  context.disable();
  propagation.disable();
});

/** The real SDK with exporters that store everything in memory. */
function sdk(options: OpenTelemetryOptions = {}) {
  const spans = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  onTestFinished(async () => {
    await tracerProvider.shutdown();
    await meterProvider.shutdown();
  });
  return {
    telemetry: openTelemetry({ tracerProvider, meterProvider, ...options }),
    tracer: tracerProvider.getTracer("test"),
    named: (name: string): ReadableSpan[] => spans.getFinishedSpans().filter((span) => span.name === name),
    span: (name: string): ReadableSpan => {
      const [found, ...others] = spans.getFinishedSpans().filter((span) => span.name === name);
      if (found === undefined || others.length > 0) throw new Error(`${others.length + 1} spans ${name}`);
      return found;
    },
    async metrics(): Promise<Map<string, MetricData>> {
      exporter.reset();
      await reader.forceFlush();
      const scopes = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics);
      return new Map(scopes.flatMap((scope) => scope.metrics.map((metric) => [metric.descriptor.name, metric])));
    },
  };
}

async function client(store: string, options: Omit<HoldfastOptions, "store">): Promise<Holdfast> {
  const hf = await holdfast({ logger: false, ...options, store });
  onTestFinished(() => hf.close());
  return hf;
}

const welcome = (tracer: () => ReturnType<typeof trace.getTracer>) =>
  job({
    type: "welcome",
    input: z.object({ to: z.string(), password: z.string().default("") }),
    async run({ input }) {
      await Promise.resolve();
      const span = tracer().startSpan("send mail");
      span.end();
      return { sent: input.to };
    },
  });

describe.each(Object.entries(addresses))("on %s", (_, address) => {
  it("an enqueue and its run are one trace", async () => {
    const here = sdk();
    const there = sdk();
    const type = welcome(() => there.tracer);
    const store = await address();
    const web = await client(store, { jobs: [type], telemetry: here.telemetry });
    const background = await client(store, { jobs: [type], telemetry: there.telemetry });
    const request = here.tracer.startSpan("GET /signup");
    const { id } = await context.with(trace.setSpan(ROOT_CONTEXT, request), () =>
      web.enqueue(type, { to: "ada" }, { queue: "mail", tags: ["a", "b"] }),
    );
    request.end();
    expect(await background.drain()).toBe(1);

    const [publish, process, mail] = [here.span("publish mail"), there.span("process mail"), there.span("send mail")];
    expect([publish.kind, process.kind]).toEqual([SpanKind.PRODUCER, SpanKind.CONSUMER]);
    expect(publish.parentSpanContext?.spanId).toBe(request.spanContext().spanId);
    expect(process.parentSpanContext?.spanId).toBe(publish.spanContext().spanId);
    expect(mail.parentSpanContext?.spanId).toBe(process.spanContext().spanId);
    const traces = [request, publish, process, mail].map((span) => span.spanContext().traceId);
    expect(new Set(traces).size).toBe(1);
    expect(process.links.map((link) => link.context.spanId)).toEqual([publish.spanContext().spanId]);

    const common = { "messaging.system": "holdfast", "messaging.destination.name": "mail", "messaging.message.id": id };
    expect(publish.attributes).toEqual({
      ...common,
      "messaging.operation.name": "publish",
      "messaging.operation.type": "send",
      "messaging.holdfast.job.type": "welcome",
    });
    expect(process.attributes).toEqual({
      ...common,
      "messaging.operation.name": "process",
      "messaging.operation.type": "process",
      "messaging.client.id": expect.any(String) as string,
      "messaging.holdfast.job.type": "welcome",
      "messaging.holdfast.job.attempt": 1,
      "messaging.holdfast.job.max_attempts": 4,
      "messaging.holdfast.job.tags": ["a", "b"],
      "messaging.holdfast.outcome": "completed",
      "messaging.holdfast.wait": expect.any(Number) as number,
    });
    expect([publish.status.code, process.status.code]).toEqual([SpanStatusCode.UNSET, SpanStatusCode.UNSET]);
  });

  it("with link, the run has a separate, linked trace", async () => {
    const otel = sdk({ link: "link" });
    const type = welcome(() => otel.tracer);
    const hf = await client(await address(), { jobs: [type], telemetry: otel.telemetry });
    await hf.enqueue(type, { to: "ada" });
    await hf.drain();
    const [publish, process] = [otel.span("publish default"), otel.span("process default")];
    expect(process.parentSpanContext).toBeUndefined();
    expect(process.spanContext().traceId).not.toBe(publish.spanContext().traceId);
    expect(process.links.map((link) => link.context.traceId)).toEqual([publish.spanContext().traceId]);
    expect(otel.span("send mail").spanContext().traceId).toBe(process.spanContext().traceId);
  });

  it("enqueueMany is one span with its runs as children", async () => {
    const otel = sdk();
    const type = welcome(() => otel.tracer);
    const hf = await client(await address(), { jobs: [type], telemetry: otel.telemetry });
    await hf.enqueueMany(type, [{ to: "a" }, { to: "b" }, { to: 7 as never }]);
    await hf.drain();
    const publish = otel.span("publish default");
    expect(publish.attributes["messaging.batch.message_count"]).toBe(2);
    const parents = otel.named("process default").map((span) => span.parentSpanContext?.spanId);
    expect(parents).toEqual([publish.spanContext().spanId, publish.spanContext().spanId]);
  });

  it("records metrics by type and outcome", async () => {
    const otel = sdk();
    const bad = job({ type: "bad", retry: { maxAttempts: 1 }, run: () => Promise.reject(new TypeError("no")) });
    const type = welcome(() => otel.tracer);
    const hf = await client(await address(), { jobs: [type, bad], telemetry: otel.telemetry });
    await hf.enqueueMany(type, [{ to: "a" }, { to: "b" }]);
    await hf.enqueue(bad, {});
    await hf.drain();
    await hf.enqueue(type, { to: "c" }, { queue: "later", delay: "1h" });
    const metrics = await otel.metrics();
    const points = (name: string, ...labels: string[]): [unknown, ...unknown[]][] =>
      (metrics.get(name)?.dataPoints ?? []).map(({ value, attributes }) => [
        typeof value === "object" ? value.count : value,
        ...labels.map((label) => attributes[label]),
      ]);
    const jobType = "messaging.holdfast.job.type";
    expect(points("messaging.client.sent.messages", jobType, "messaging.destination.name")).toEqual([
      [2, "welcome", "default"],
      [1, "bad", "default"],
      [1, "welcome", "later"],
    ]);
    expect(points("messaging.client.operation.duration", jobType)).toHaveLength(3);
    expect(new Map(points("messaging.client.consumed.messages", jobType).map(([n, label]) => [label, n]))).toEqual(
      new Map([
        ["welcome", 2],
        ["bad", 1],
      ]),
    );
    const ended = points("messaging.process.duration", jobType, "messaging.holdfast.outcome", "error.type");
    expect(ended).toHaveLength(2);
    expect(ended).toContainEqual([2, "welcome", "completed", undefined]);
    expect(ended).toContainEqual([1, "bad", "dead", "TypeError"]);
    expect(points("holdfast.job.wait.duration", jobType)).toHaveLength(2);
    expect(metrics.get("messaging.process.duration")).toMatchObject({
      dataPointType: DataPointType.HISTOGRAM,
      descriptor: { unit: "s" },
    });
    const depths = points("holdfast.jobs", "messaging.destination.name", "messaging.holdfast.state");
    expect(depths.filter(([count]) => count !== 0)).toHaveLength(3);
    for (const point of [
      [2, "default", "completed"],
      [1, "default", "dead"],
      [1, "later", "pending"],
    ]) {
      expect(depths).toContainEqual(point);
    }
    expect(points("holdfast.jobs.oldest_due")).toEqual([[0]]);
  });
});

describe("the span of a run", () => {
  it("has error, stack and outcome of each attempt", async () => {
    const otel = sdk();
    const bad = job({
      type: "bad",
      retry: { maxAttempts: 2, backoff: { base: "3s", jitter: 0 } },
      run: () => Promise.reject(new RangeError("out of range")),
    });
    const { hf, clock } = await engineScene({ jobs: [bad], telemetry: otel.telemetry });
    await hf.enqueue(bad, {});
    hf.work();
    await clock.advance("10s");
    const runs = otel.named("process default");
    expect(runs.map(({ attributes }) => attributes["messaging.holdfast.outcome"])).toEqual(["failed", "dead"]);
    expect(runs.map(({ attributes }) => attributes["messaging.holdfast.job.attempt"])).toEqual([1, 2]);
    expect(runs.map(({ attributes }) => attributes["messaging.holdfast.retry_in"])).toEqual([3, undefined]);
    for (const run of runs) {
      expect(run.status).toEqual({ code: SpanStatusCode.ERROR, message: "out of range" });
      expect(run.attributes["error.type"]).toBe("RangeError");
      expect(run.events[0]?.attributes).toMatchObject({
        "exception.type": "RangeError",
        "exception.message": "out of range",
        "exception.stacktrace": expect.stringContaining("opentelemetry.test") as string,
      });
      expect(run.spanContext().traceId).toBe(otel.span("publish default").spanContext().traceId);
    }
  });

  it("distinguishes lost leases, cancellations and releases", async () => {
    const otel = sdk();
    const waits = job({ type: "waits", run: ({ signal }) => aborted(signal) });
    const { hf, clock, store } = await engineScene({ jobs: [waits], telemetry: otel.telemetry });
    const worker = hf.work({ grace: 0 });
    const { id } = await hf.enqueue(waits, {});
    await clock.advance("1s");
    await hf.cancel(id);
    await clock.settle();
    await hf.enqueue(waits, {});
    await clock.advance("1s");
    const stopped = worker.stop();
    await clock.advance("1s");
    await stopped;
    const letGo = store.fail(new Error("away"), "extend", "settle");
    hf.work();
    await clock.advance("40s");
    letGo();
    const ended = otel.named("process default");
    expect(ended.map(({ attributes, status }) => [attributes["messaging.holdfast.outcome"], status.code])).toEqual([
      ["cancelled", SpanStatusCode.UNSET],
      ["released", SpanStatusCode.UNSET],
      ["lost", SpanStatusCode.ERROR],
    ]);
    const losses = (await otel.metrics()).get("holdfast.lease.losses")?.dataPoints;
    expect(losses?.map(({ value }) => value)).toEqual([1]);
  });

  it("does not include the time to settle", async () => {
    const otel = sdk();
    const quick = job({ type: "quick", run: () => {} });
    const { hf, store } = await engineScene({ jobs: [quick], telemetry: otel.telemetry });
    await hf.enqueue(quick, {});
    const letGo = store.hold("settle");
    const drained = hf.drain();
    await waitUntil(() => store.count("settle") === 1);
    const settling = performance.now();
    await waitUntil(() => performance.now() - settling > 200);
    letGo();
    await drained;
    const [seconds, nanoseconds] = otel.span("process default").duration;
    expect(seconds + nanoseconds / 1e9).toBeLessThan(0.2);
  });

  it("has the redacted, truncated input only with captureInput", async () => {
    const mail = welcome(() => trace.getTracer("none"));
    for (const captureInput of [false, true]) {
      const otel = sdk({ captureInput });
      const { hf } = await engineScene({ jobs: [mail], telemetry: otel.telemetry, redact: ["**.password"] });
      await hf.enqueue(mail, { to: "ada", password: "secret" });
      await hf.enqueue(mail, { to: "x".repeat(9_000) }, { queue: "large" });
      await hf.drain();
      const captured = otel.span("process default").attributes["messaging.holdfast.job.input"];
      expect(captured).toBe(captureInput ? `{"to":"ada","password":"[redacted]"}` : undefined);
      const large = otel.span("process large").attributes["messaging.holdfast.job.input"] as string | undefined;
      expect(large?.length).toBe(captureInput ? 4_000 : undefined);
    }
  });

  it("ignores the context in which the worker was started", async () => {
    const otel = sdk();
    const type = welcome(() => otel.tracer);
    const { hf } = await engineScene({ jobs: [type], telemetry: otel.telemetry });
    const request = otel.tracer.startSpan("GET /");
    await context.with(trace.setSpan(ROOT_CONTEXT, request), async () => {
      await hf.schedule("s", { job: type, input: { to: "ada" }, every: "1h" });
      await hf.schedules.runNow("s");
      await hf.drain();
    });
    const run = otel.span("process default");
    expect(run.parentSpanContext).toBeUndefined();
    expect(run.attributes["messaging.holdfast.schedule.name"]).toBe("s");
  });
});

describe("trace context", () => {
  it("is stored as traceparent if no propagator is registered", async () => {
    propagation.disable();
    const otel = sdk();
    const type = welcome(() => otel.tracer);
    const { hf } = await engineScene({ jobs: [type], telemetry: otel.telemetry });
    await hf.enqueue(type, { to: "ada" });
    await hf.drain();
    const [publish, process] = [otel.span("publish default"), otel.span("process default")];
    expect(process.parentSpanContext?.spanId).toBe(publish.spanContext().spanId);
  });

  it("is absent without an SDK, and jobs still run", async () => {
    const type = welcome(() => trace.getTracer("none"));
    const { hf, store } = await engineScene({ jobs: [type], telemetry: openTelemetry() });
    await hf.enqueue(type, { to: "ada" });
    expect(await hf.drain()).toBe(1);
    expect(store.calls("insert")[0]).toMatchObject([[{ trace: null }]]);
  });
});

describe("the span of an enqueue", () => {
  it("has the error of a refused enqueue", async () => {
    const otel = sdk();
    const type = welcome(() => otel.tracer);
    const { hf } = await engineScene({ jobs: [type], telemetry: otel.telemetry });
    await expect(hf.enqueue(type, { to: 7 as never })).rejects.toThrow("to");
    const publish = otel.span("publish default");
    expect(publish.status.code).toBe(SpanStatusCode.ERROR);
    expect(publish.attributes["error.type"]).toBe("InvalidInputError");
  });
});

describe("the depths of the queues", () => {
  it("are queried once per collection until close", async () => {
    const otel = sdk();
    const { hf, store, clock } = await engineScene({ telemetry: otel.telemetry });
    await otel.metrics();
    expect(store.count("stats")).toBe(1);
    const recover = store.fail(new Error("away"), "stats");
    await otel.metrics();
    recover();
    expect(store.count("stats")).toBe(2);
    expect((await otel.metrics()).get("holdfast.jobs.oldest_due")?.dataPoints).toHaveLength(1);
    const closed = hf.close();
    await clock.advance("1s");
    await closed;
    await otel.metrics();
    expect(store.count("stats")).toBe(3);
  });

  it("combine queues above the limit", async () => {
    const otel = sdk();
    const type = job({ type: "t", run: () => {} });
    const { hf } = await engineScene({ jobs: [type], telemetry: otel.telemetry });
    await hf.enqueueMany(
      type,
      Array.from({ length: 230 }, () => ({})),
      { each: (_, n) => ({ queue: `q${n}` }) },
    );
    const points = (await otel.metrics()).get("holdfast.jobs")?.dataPoints ?? [];
    const waiting = points.filter(({ value }) => value !== 0);
    expect(waiting).toHaveLength(201);
    expect(waiting.find(({ attributes }) => attributes["messaging.destination.name"] === "other")?.value).toBe(30);
  });
});

describe("openTelemetry refuses", () => {
  for (const [what, options] of Object.entries({
    "a misspelt option": { tracer: 1 },
    "another link": { link: "parent" },
    "a captureInput that is no boolean": { captureInput: "yes" },
  })) {
    it(`${what}`, () => {
      expect(() => openTelemetry(options as OpenTelemetryOptions)).toThrow(InvalidOptionError);
    });
  }
});

async function waitUntil(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

function aborted(signal: AbortSignal): Promise<never> {
  const gate = deferred<never>();
  const stop = (): void => gate.reject(signal.reason);
  if (signal.aborted) stop();
  else signal.addEventListener("abort", stop);
  return gate.promise;
}
