import type { Context, SpanContext } from "@opentelemetry/api";
import type { TraceCarrier } from "../../engine/events/telemetry.js";
import type { Api } from "./api.js";

/**
 * Writes the trace context to a job's carrier and reads it back. Uses the application's propagator. If none is registered, it writes
 * and reads only W3C's `traceparent`, so that enqueue and run are still connected.
 */
export interface Carriers {
  write(context: Context): TraceCarrier | null;
  read(carrier: TraceCarrier | null): Context;
}

export function carriersOf({ propagation, trace, ROOT_CONTEXT, isSpanContextValid }: Api): Carriers {
  return {
    write(context) {
      const carrier: Record<string, string> = {};
      propagation.inject(context, carrier);
      const span = trace.getSpanContext(context);
      if (Object.keys(carrier).length === 0 && span !== undefined && isSpanContextValid(span)) {
        carrier["traceparent"] = traceparent(span);
      }
      return Object.keys(carrier).length === 0 ? null : carrier;
    },
    read(carrier) {
      if (carrier === null) return ROOT_CONTEXT;
      const context = propagation.extract(ROOT_CONTEXT, carrier);
      if (trace.getSpanContext(context) !== undefined) return context;
      const span = parseTraceparent(carrier["traceparent"] ?? "");
      return span === null || !isSpanContextValid(span) ? context : trace.setSpanContext(context, span);
    },
  };
}

function traceparent({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${(traceFlags & 0xff).toString(16).padStart(2, "0")}`;
}

function parseTraceparent(text: string): SpanContext | null {
  const match = /^00-(?<trace>[0-9a-f]{32})-(?<span>[0-9a-f]{16})-(?<flags>[0-9a-f]{2})$/.exec(text);
  if (match?.groups === undefined) return null;
  const { trace = "", span = "", flags = "" } = match.groups;
  return { traceId: trace, spanId: span, traceFlags: Number.parseInt(flags, 16), isRemote: true };
}
