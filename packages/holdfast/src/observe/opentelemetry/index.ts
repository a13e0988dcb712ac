import type { MeterProvider, TracerProvider } from "@opentelemetry/api";
import type { Telemetry } from "../../engine/events/telemetry.js";
import { InvalidOptionError } from "../../errors.js";
import { refuseUnknown, show } from "../../options.js";
import { version } from "../version.js";
import { loadApi } from "./api.js";
import { carriersOf } from "./carrier.js";
import { instrumentsOf } from "./instruments.js";
import { endProcess, endPublish, processSpan, publishSpan } from "./spans.js";

/** What `openTelemetry` takes; nothing of it is needed where an OpenTelemetry SDK is registered. */
export interface OpenTelemetryOptions {
  /** Where spans go. Default: the one registered with `@opentelemetry/api`. */
  tracerProvider?: { getTracer(name: string, version?: string): unknown };
  /** Where metrics go. Default: the one registered with `@opentelemetry/api`. */
  meterProvider?: { getMeter(name: string, version?: string): unknown };
  /**
   * How a run refers to its enqueue: as a child, in one trace with it (default), or only by a link, in a trace of its own.
   * Both have the link.
   */
  link?: "child" | "link";
  /** Puts the input, redacted and cut at 4,000 characters, into the spans of runs. Default false. */
  captureInput?: boolean;
}

const FIELDS: ReadonlySet<string> = new Set(["tracerProvider", "meterProvider", "link", "captureInput"]);

/**
 * Spans and metrics by OpenTelemetry's semantic conventions for messaging.
 *
 * ```ts
 * const hf = await holdfast({ store, jobs, telemetry: openTelemetry() });
 * ```
 *
 * Why a child by default: the conventions prefer links because a consumer may process several messages in one span, or within
 * another one. A run is of one job and within nothing, for which they allow the parent; and one trace from the request to
 * what it caused is what people look for. Choose `"link"` where traces would grow too large, as by `enqueueMany` of
 * thousands, or too long, by delays of days.
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
      const began = performance.now();
      const open = publishSpan(api, tracer, call);
      return {
        carrier: carriers.write(open.context),
        end(end) {
          endPublish(api, open, call, end);
          instruments.enqueued(call, end.jobs, performance.now() - began, end.error);
        },
      };
    },
    run(run) {
      const began = performance.now();
      const open = processSpan(api, tracer, run, carriers.read(run.carrier), { link, captureInput });
      instruments.began(run);
      return {
        inside: (handler) => api.context.with(open.context, handler),
        end(end) {
          endProcess(api, open, end, began);
          instruments.ended(run, end);
        },
      };
    },
    attach: (client) => instruments.observe(client),
  };
}
