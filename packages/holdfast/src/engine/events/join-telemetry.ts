import type { Logger } from "./logger.js";
import { callInside, guarded, type Telemetry } from "./telemetry.js";

/**
 * Two telemetries as one. A handler runs inside the trace of the outer and, within that, of the inner; jobs carry what the outer
 * gives, or else the inner. What one of them throws is logged, and the other hears of everything all the same.
 */
export function joinTelemetry(outer: Telemetry, inner: Telemetry, logger: Logger): Telemetry {
  const both = [outer, inner] as const;
  const guard = <Answer>(call: () => Answer): Answer | undefined => guarded(logger, call);
  return {
    enqueue(call) {
      const traces = both.map((telemetry) => guard(() => telemetry.enqueue(call)));
      const carriers = traces.map((trace) => guard(() => trace?.carrier));
      return {
        carrier: carriers.find((carrier) => carrier !== undefined && carrier !== null) ?? null,
        end(end) {
          for (const trace of traces) guard(() => trace?.end(end));
        },
      };
    },
    run(run) {
      const [around, within] = both.map((telemetry) => guard(() => telemetry.run(run)));
      return {
        inside<Output>(handler: () => Output): Output {
          const inInner = (): Output => (within === undefined ? handler() : callInside(within, handler, guard));
          return around === undefined ? inInner() : callInside(around, inInner, guard);
        },
        end(end) {
          guard(() => around?.end(end));
          guard(() => within?.end(end));
        },
      };
    },
    attach(client) {
      const detaches = both.map((telemetry) => guard(() => telemetry.attach?.(client)));
      return () => {
        for (const detach of detaches) guard(() => detach?.());
      };
    },
  };
}
