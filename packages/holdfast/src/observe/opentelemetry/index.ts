import type { MeterProvider, TracerProvider } from "@opentelemetry/api";
import type { Telemetry } from "../../engine/events/telemetry.js";
import { InvalidOptionError } from "../../errors.js";
import { optionKeys, refuseUnknown, show } from "../../options.js";
import { version } from "../../engine/version.js";
import { loadApi } from "./api.js";
import { carriersOf } from "./carrier.js";
import { instrumentsOf } from "./instruments.js";
import { endProcess, endPublish, processSpan, publishSpan } from "./spans.js";

/** Options of `openTelemetry`. All are optional if an OpenTelemetry SDK is registered. */
export interface OpenTelemetryOptions {
  /** The provider for spans. Default: the one registered with `@opentelemetry/api`. */
  tracerProvider?: { getTracer(name: string, version?: string): unknown };
  /** The provider for metrics. Default: the one registered with `@opentelemetry/api`. */
  meterProvider?: { getMeter(name: string, version?: string): unknown };
  /**
   * How a run refers to its enqueue: as a child in the same trace (default), or only by a link from a separate trace. The link exists
   * in both cases.
   */
  link?: "child" | "link";
  /** Adds the input, redacted and truncated to 4,000 characters, to the spans of runs. Default false. */
  captureInput?: boolean;
}

const FIELDS: ReadonlySet<string> = optionKeys<OpenTelemetryOptions>({
  tracerProvider: true,
  meterProvider: true,
  link: true,
  captureInput: true,
});

/**
 * Creates spans and metrics that follow OpenTelemetry's semantic conventions for messaging.
 *
 * ```ts
 * const hf = await holdfast({ store, jobs, telemetry: openTelemetry() });
 * ```
 *
 * By default a run is a child of its enqueue. The conventions prefer links, because a consumer may process several messages in one
 * span. A run processes one job, so they also allow a parent, and one trace from the request to its jobs is easier to follow. Choose
 * `"link"` if traces would become too large (`enqueueMany` of thousands) or too long (delays of days).
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Telemetry {
  refuseUnknown(options, FIELDS, "openTelemetry");
  const { link = "child", captureInput = false } = options;
  if (!["child", "link"].includes(link))
    throw new InvalidOptionError("link", `${show(link)} is none of "child", "link"`);
  if (typeof captureInput !== "boolean") throw new InvalidOptionError("captureInput", "must be true or false");
  const api = loadApi();
  const tracers = (options.tracerProvider as TracerProvider | undefined) ?? api.trace;
  const meters = (options.meterProvider as MeterProvider | undefined) ?? api.metrics;
  const tracer = tracers.getTracer("holdfast", version());
  const instruments = instrumentsOf(meters.getMeter("holdfast", version()));
  const carriers = carriersOf(api);

  return {
    enqueue(call) {
      const startedAt = performance.now();
      const open = publishSpan(api, tracer, call);
      return {
        carrier: carriers.write(open.context),
        end(end) {
          endPublish(api, open, call, end);
          instruments.enqueued(call, end.jobs, performance.now() - startedAt, end.error);
        },
      };
    },
    run(run) {
      const startedAt = performance.now();
      const open = processSpan(api, tracer, run, carriers.read(run.carrier), { link, captureInput });
      instruments.started(run);
      return {
        inside: (handler) => api.context.with(open.context, handler),
        end(end) {
          endProcess(api, open, end, startedAt);
          instruments.ended(run, end);
        },
      };
    },
    attach: (client) => instruments.observe(client),
  };
}
